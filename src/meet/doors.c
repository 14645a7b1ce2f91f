/* SPDX-License-Identifier: Apache-2.0 */
/* Where newcomers look for a running job's doors. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "meet/door.h"

uint32_t shoali_door_resolve(const shoali_door *door, shoali_ip ips_out[SHOALI_DOOR_PLACES])
{
    char host[256], port[8];
    struct addrinfo *list;
    shoali_ip ip;
    uint32_t count = 0;
    if (strncmp(door->rendezvous, "tcp://", 6) != 0 ||
        !shoali_meet_parse(door->rendezvous, host, sizeof host, port, sizeof port) ||
        shoali_ip_parse(host, &ip) || shoali_meet_resolve(&door->meeting, &list) != SHOAL_OK)
        return 0;
    for (const struct addrinfo *a = list; a != NULL && count < SHOALI_DOOR_PLACES; a = a->ai_next)
        if (a->ai_addrlen <= sizeof ips_out[count])
            memcpy(&ips_out[count++], a->ai_addr, a->ai_addrlen);
    freeaddrinfo(list);
    return count;
}

const char *shoali_doors_file(const shoali_door *door, char *path, size_t path_bytes)
{
    if (strncmp(door->rendezvous, "file://", 7) != 0)
        return NULL;
    snprintf(path, path_bytes, "%s.doors", door->rendezvous + 7);
    return path;
}

static bool line_of_file(const char *path, uint32_t i, char *out)
{
    char line[SHOALI_DOOR_BYTES + 2];
    FILE *file = fopen(path, "re");
    bool found = false;
    for (uint32_t at = 0; file != NULL && !found && fgets(line, sizeof line, file) != NULL; at++)
        found = at == i;
    if (file != NULL)
        fclose(file);
    if (found) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, SHOALI_DOOR_BYTES, "%.*s", SHOALI_DOOR_BYTES - 1, line);
    }
    return found;
}

/* The rendezvous' numeric address, the entries of SHOAL_DOORS, the lines of PLACE.doors. */
bool shoali_door_known(const shoali_door *door, uint32_t i, char address_out[SHOALI_DOOR_BYTES])
{
    char path[SHOALI_RENDEZVOUS_BYTES + 16];
    const char *list = door->desc.doors;
    if (strncmp(door->rendezvous, "tcp://", 6) == 0 && i-- == 0) {
        snprintf(address_out, SHOALI_DOOR_BYTES, "%.*s", SHOALI_DOOR_BYTES - 1,
                 door->rendezvous + 6);
        return true;
    }
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ",");
        if (i-- == 0) {
            snprintf(address_out, SHOALI_DOOR_BYTES, "%.*s", (int)length, list);
            return true;
        }
        list += length + (list[length] == ',');
    }
    return shoali_doors_file(door, path, sizeof path) != NULL && line_of_file(path, i, address_out);
}

void shoali_doors_write(const shoali_door *door, const char *path)
{
    char fresh[SHOALI_RENDEZVOUS_BYTES + 48], other[SHOALI_DOOR_BYTES];
    const shoali_door_owner *owner = &door->owner;
    snprintf(fresh, sizeof fresh, "%s.%llx", path, (unsigned long long)door->mine.incarnation);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        shoali_log(WARN, "cannot write %s: newcomers will not find this job", fresh);
        if (fd >= 0)
            close(fd);
        return;
    }
    fprintf(file, "%s\n", door->address);
    for (uint32_t i = 0; i < owner->size; i++)
        if (i != owner->me && owner->door_of(owner->ctx, i, other))
            fprintf(file, "%s\n", other);
    if (fclose(file) != 0 || rename(fresh, path) != 0)
        shoali_log(WARN, "cannot write %s: newcomers will not find this job", path);
}
