"""Views with a front end: the timeline, live and as a picture."""
