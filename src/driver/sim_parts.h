/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the simulator do for each other. */
#ifndef SHOALI_DRIVER_SIM_PARTS_H
#define SHOALI_DRIVER_SIM_PARTS_H

#include "driver/sim.h"

/* sim_ops.c */
/** Forget them all. */
void shoali_sim_ops_clear(shoal_sim *sim);
void shoali_sim_op_enter(shoal_sim *sim, uint32_t endpoint, const shoali_sync_op *op);
void shoali_sim_op_cancel(shoal_sim *sim, uint32_t endpoint, uint64_t id);
/** A member waits for it: all its bytes go as fast as they can. */
void shoali_sim_op_hurry(shoal_sim *sim, uint64_t id);
void shoali_sim_op_move(shoal_sim *sim, uint32_t index, uint32_t generation);
/** All bytes are through, but for last packets that were lost. */
void shoali_sim_op_moved(shoal_sim *sim, uint32_t index);
void shoali_sim_op_arrived(shoal_sim *sim, uint32_t index, uint32_t generation);
/** A cut began or ended: what crosses it stands still, the rest moves. */
void shoali_sim_ops_recut(shoal_sim *sim);
void shoali_sim_op_tell(shoal_sim *sim, uint32_t endpoint, uint32_t index, uint32_t generation);
/** What becomes of an endpoint's operations when it gives up, stands still, is known to be gone. */
void shoali_sim_ops_abandon(shoal_sim *sim, uint32_t endpoint, const char *why);
void shoali_sim_ops_hang(shoal_sim *sim, uint32_t endpoint);
void shoali_sim_ops_fail(shoal_sim *sim, uint32_t endpoint, const char *why);

/* sim_numbers.c; what changes numbers does nothing if there are none */
/** Parameters, gradients and slots of an endpoint. */
SHOAL_MUST_USE shoal_status shoali_sim_numbers_open(shoal_sim *sim, uint32_t endpoint);
/** An endpoint's state of a transform for operations over elements [offset, +count), zero at first;
 * NULL: ENOMEM. */
void *shoali_sim_transform_state(shoali_sim_node *node, size_t offset, size_t count, size_t bytes);
/** They begin anew. */
void shoali_sim_transforms_clear(shoali_sim_node *node);
void shoali_sim_transforms_fini(shoali_sim_node *node);
/** An endpoint begins an operation: if it is one that lies, so do its numbers. */
void shoali_sim_lie(shoal_sim *sim, uint32_t endpoint, const shoali_sync_op *op);
/** A tensor's gradient is there. */
void shoali_sim_gradient(shoal_sim *sim, uint32_t endpoint, uint32_t tensor);
/** The optimiser of an endpoint on a range; grads at its beginning. */
void shoali_sim_optimise(shoal_sim *sim, uint32_t endpoint, uint64_t iteration, size_t offset,
                         size_t count, const float *grads, float scale, float *params_out);
/** A worker is through; an average over all comes next. */
void shoali_sim_test_worker(shoal_sim *sim, uint32_t worker);
/** The run is over: results of numbers. */
SHOAL_MUST_USE shoal_status shoali_sim_test(shoal_sim *sim);
/** Loss and distance from the mean now. */
void shoali_sim_measure(shoal_sim *sim, shoal_sim_point *point);

/* sim_world.c */
SHOAL_MUST_USE shoal_status shoali_sim_world_links(shoal_sim *sim);
/** How fast workers are; model: NULL, or what sim->asked.compute is about. */
SHOAL_MUST_USE shoal_status shoali_sim_world_pace(shoal_sim *sim, const shoal_model *model);
/** One iteration's compute time if it begins at this moment. */
uint64_t shoali_sim_iteration_ns(const shoal_sim *sim, uint32_t worker, uint64_t iteration,
                                 uint64_t at_ns);
uint64_t shoali_sim_latency_ns(const shoal_sim *sim, uint32_t from, uint32_t to);
/** Bytes per ns of link 2 host (up) or 2 host + 1 (down). */
double shoali_sim_link_rate(const shoal_sim *sim, uint32_t link);
double shoali_sim_loss(const shoal_sim *sim, uint32_t from, uint32_t to);
/** The two links that endpoints send each other by: of their own where the cluster has such, or one
 *  that it names between their hosts (twice the same), or their hosts'. false: none. */
bool shoali_sim_links(const shoal_sim *sim, uint32_t from, uint32_t to, uint32_t links_out[2]);

/* sim_choose.c */
/** Choose protocol and codec by links, compute times and size: sim->choice. */
SHOAL_MUST_USE shoal_status shoali_sim_choose(shoal_sim *sim, const shoal_sim_desc *desc);

/* sim_rates.c */
/** Read network's trace, if it has one. */
SHOAL_MUST_USE shoal_status shoali_sim_rates_read(shoal_sim *sim);
void shoali_sim_rates_plan(shoal_sim *sim);
void shoali_sim_rates_change(shoal_sim *sim, uint32_t line);

/* sim_wire.c */
SHOAL_MUST_USE shoal_status shoali_sim_wire_open(shoal_sim *sim);
/** All messages take sim->latency_ns, whoever gets them. */
bool shoali_sim_wire_plain(const shoal_sim *sim);
/** When a message that is sent now arrives. Draws from the seed. */
uint64_t shoali_sim_arrival_ns(shoal_sim *sim, uint32_t from, uint32_t to);
/** When everything has arrived that an endpoint ever sent; a latency from now, if that is later. */
uint64_t shoali_sim_last_word_ns(const shoal_sim *sim, uint32_t endpoint);
/** Some members cannot reach each other now. */
bool shoali_sim_op_cut(const shoal_sim *sim, const shoali_sim_op *op);
void shoali_sim_plan_cuts(shoal_sim *sim);

/* sim_report.c */
enum { SHOALI_SIM_POINTS = 512 };
#define SHOALI_SIM_NO_CAUSE UINT32_MAX
SHOAL_MUST_USE shoal_status shoali_sim_report_open(shoal_sim *sim, const shoal_sim_desc *desc);
void shoali_sim_report_fini(shoal_sim *sim);
/** A worker's wait is over; it began at asked_ns. */
void shoali_sim_report_wait(shoal_sim *sim, uint32_t endpoint);
/** A worker has finished an iteration; at_start: nobody has. */
void shoali_sim_report_step(shoal_sim *sim, bool at_start);
void shoali_sim_report_compute(shoal_sim *sim, uint32_t endpoint);
void shoali_sim_report_op(shoal_sim *sim, const shoali_sim_op *op);
void shoali_sim_report_event(shoal_sim *sim, uint32_t endpoint, const shoali_event *event);

/* sim_places.c */
#define SHOALI_SIM_NO_PLACE UINT32_MAX
/** The place of an operation, or SHOALI_SIM_NO_PLACE. */
uint32_t shoali_sim_place_find(const shoal_sim *sim, uint64_t id);
/** A place for an operation that has none, with room for its members; SHOALI_SIM_NO_PLACE: no
 * memory. Moves sim->ops.places. The caller sets a state other than FREE. */
uint32_t shoali_sim_place_take(shoal_sim *sim, uint64_t id, uint32_t size);
void shoali_sim_place_drop(shoal_sim *sim, uint32_t index);
/** The opened collective of a spec, kept by name; NULL with sim->status. */
shoali_collective *shoali_sim_collective_of(shoal_sim *sim, const char *spec);
void shoali_sim_ops_fini(shoal_sim *sim);

/* sim_volume.c */
/** What an operation of these members moves, counted from its schedule; NULL with sim->status. */
shoali_volume *shoali_sim_volume(shoal_sim *sim, const shoali_sim_op *op);
/** The same, empty, for bytes that are measured; rounds still come from the schedule. */
shoali_volume *shoali_sim_volume_measured(shoal_sim *sim, const shoali_sim_op *op);
void shoali_sim_volume_add(shoal_sim *sim, shoali_volume *volume, const shoali_sim_op *op,
                           uint32_t from, uint32_t to, uint64_t bytes);
void shoali_sim_volume_drop(shoali_volume *volume);
void shoali_sim_volumes_fini(shoal_sim *sim);

#endif
