/* SPDX-License-Identifier: Apache-2.0 */
/* Only in a command built with the address sanitizer. Its leak check finds thread-local storage by
 * two words before each block that __tls_get_addr gave out, which are not always what it takes them
 * for: GCC 12's then ended a job whose launcher was done well ("Tracer caught signal 11"). */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}
