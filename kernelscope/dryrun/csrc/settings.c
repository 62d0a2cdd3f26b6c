/* The environment variables that shape the dry run, read once, when the library is loaded.
 *
 *   KERNELSCOPE_DRYRUN_DEVICES         how many devices, 1 to 8 (1)
 *   KERNELSCOPE_DRYRUN_CC              their compute capability, 90 or 9.0, or a list with one for each device; the
 *                                      last one is repeated (9.0)
 *   KERNELSCOPE_DRYRUN_DRIVER_VERSION  the CUDA version of the driver, 13000 or 13.0
 *
 * Python has checked them with better messages (kernelscope/dryrun/switch.py) unless someone loads the library
 * without it: then a wrong one makes cuInit fail with CUDA_ERROR_INVALID_VALUE. */
#include "driver.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A CUDA 13 header can be newer than the driver that is commonly installed with it; 13.0 is what all of them run on. */
#define DEFAULT_DRIVER_VERSION (CUDA_VERSION >= 13000 ? 13000 : CUDA_VERSION)

static bool complain(const char *name, const char *value)
{
    fprintf(stderr, "kernelscope dry run: %s=%s is not understood\n", name, value);
    return false;
}

/* Read "9.0" or "90" as 90: `scale` says what one unit before the dot counts. Returns the end, NULL when wrong. */
static const char *read_dotted(const char *text, int scale, int minor_scale, int *value)
{
    char *end = NULL;
    if (!isdigit((unsigned char)*text)) return NULL;
    long whole = strtol(text, &end, 10);
    if (*end != '.') {
        *value = (int)(whole > 1000000 ? 1000000 : whole);
        return end;
    }
    if (!isdigit((unsigned char)end[1]) || whole > 1000) return NULL;
    *value = (int)(whole * scale + (end[1] - '0') * minor_scale);
    return end + 2;
}

static bool read_device_count(void)
{
    state.device_count = 1;
    const char *text = getenv("KERNELSCOPE_DRYRUN_DEVICES");
    if (!text || !*text) return true;
    char *end = NULL;
    long count = strtol(text, &end, 10);
    if (*end || count < 1 || count > MAX_DEVICES) return complain("KERNELSCOPE_DRYRUN_DEVICES", text);
    state.device_count = (int)count;
    return true;
}

static bool read_capabilities(void)
{
    for (int i = 0; i < MAX_DEVICES; i++) state.devices[i].profile = profile_of(90);
    const char *text = getenv("KERNELSCOPE_DRYRUN_CC"), *rest = text;
    if (!text || !*text) return true;
    for (int i = 0; i < MAX_DEVICES; i++) {
        int capability = 0;
        rest = read_dotted(rest, 10, 1, &capability);
        const Profile *profile = rest ? profile_of(capability) : NULL;
        if (!profile || (*rest && *rest != ',')) return complain("KERNELSCOPE_DRYRUN_CC", text);
        for (int later = i; later < MAX_DEVICES; later++) state.devices[later].profile = profile;
        if (!*rest) return true;
        rest++;
    }
    return complain("KERNELSCOPE_DRYRUN_CC", text);
}

static bool read_driver_version(void)
{
    state.driver_version = DEFAULT_DRIVER_VERSION;
    const char *text = getenv("KERNELSCOPE_DRYRUN_DRIVER_VERSION");
    if (!text || !*text) return true;
    int version = 0;
    const char *end = read_dotted(text, 1000, 10, &version);
    if (!end || *end || version < 12000 || version > 13990) {
        return complain("KERNELSCOPE_DRYRUN_DRIVER_VERSION", text);
    }
    state.driver_version = version;
    return true;
}

bool settings_read(void)
{
    bool count = read_device_count(), capabilities = read_capabilities(), version = read_driver_version();
    return count && capabilities && version;
}
