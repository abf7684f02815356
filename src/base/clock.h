/* clock.h: how long something takes. */
#ifndef LAP_BASE_CLOCK_H
#define LAP_BASE_CLOCK_H

/* Seconds since some moment; never backwards. */
double lap_seconds(void);

#endif
