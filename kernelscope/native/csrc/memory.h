/* Where slots lie: memory of their own, or a part of a file. */
#ifndef KS_MEMORY_H
#define KS_MEMORY_H

#include <sys/types.h>

#include "ring.h"

/* Memory that is there already, all zeros; NULL where there is none. */
void *ks_memory_new(size_t bytes);
/* A segment of empty slots, and what is done with one that nobody needs any more. */
ks_slot *ks_memory_segment(void);
void ks_memory_give_up(ks_slot *segment, bool in_file);
/* A part of a file as memory, with blocks of its own on the disk: writing to it cannot fail for want of room.
 *
 * Where the file loses that part all the same, since somebody truncates it, a page of zeros takes the place of each page
 * that is touched, and `is_torn` is set: see `on_bus_error`. */
void *ks_memory_of_file(int file, off_t offset, size_t bytes, int *failure, _Atomic bool *is_torn);
/* Puts a copy in the place of memory that is a file's, at the same address, or zeros where it is not used any more;
 * false where there is no memory. */
bool ks_memory_leave_file(void *memory, size_t bytes, bool is_used);
/* Unmaps memory that is a file's. */
void ks_memory_unmap_file(void *memory, size_t bytes);
void ks_memory_before_fork(void);
void ks_memory_after_fork(bool is_child);

#endif
