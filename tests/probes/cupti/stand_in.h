/* What the files of the stand-in for CUPTI share. */
#pragma once

#define EXPORT __attribute__((visibility("default")))

/* What a function of this name is to return: 0 where tests have told nothing. */
int stand_in_failure(const char *function);
/* Raises the signal of this number, once. */
void stand_in_come(int *number);
void profiler_reset(void);
void profiler_run(void *context);
