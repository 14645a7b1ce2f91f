/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of a job, looked at before anything starts there. */
#ifndef SHOAL_CLI_HOSTS_H
#define SHOAL_CLI_HOSTS_H

#include "remote.h"

typedef struct hosts_ports {
    uint16_t port, store_port; /* on rank 0's host; free there */
    int hold;                  /* they are kept until it is closed; -1: they are not */
} hosts_ports;

/**
 * Ask all hosts at once, for as long as hosts_wait_s() says, whether the job can start there: ssh
 * lets us in, shoal lies there and is of our version, program is found, the ports are free. Prints
 * a sentence for each host that fails.
 * @param program   what the ranks run.
 * @param port      wanted for MASTER_PORT (the next one for rank 0's store); 0: free ones.
 * @param ports_out set on success.
 * @return CLI_OK; CLI_USAGE; CLI_DEADLINE if hosts were only silent; else CLI_FAILED.
 */
int hosts_check(const char *verb, const remote_hosts *hosts, const char *program, uint16_t port,
                hosts_ports *ports_out);

/** SHOAL_HOSTS_WAIT: how long a host may take to answer; 0: it says something else. */
unsigned hosts_wait_s(void);

/** What starts where, on standard error. */
void hosts_tell(const char *verb, const remote_hosts *hosts, const char *program, uint16_t port);

/** The far end of the check: print free ports, and keep them until standard input ends; or say that
 * one of port and the next is taken. */
int hosts_hold_ports(uint16_t port);

#endif
