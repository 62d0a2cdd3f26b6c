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
/* A part of a file as memory, with blocks of its own on the disk: writing to it cannot fail for want of room. */
void *ks_memory_of_file(int file, off_t offset, size_t bytes, int *failure);
/* Puts a copy in the place of memory that is a file's, at the same address; false where there is no memory. */
bool ks_memory_leave_file(void *memory, size_t bytes, bool is_used);
void ks_memory_before_fork(void);
void ks_memory_after_fork(bool is_child);

#endif
