/* SPDX-License-Identifier: Apache-2.0 */
/* A run for TensorBoard: --tensorboard DIR of shoal train and shoal sim. A folder per run; of a
 * training the worker of the lowest rank that is there writes, each process into its own file. */
#ifndef SHOAL_CLI_TRAIN_BOARD_H
#define SHOAL_CLI_TRAIN_BOARD_H

#include "shoal/train.h"

typedef struct train_board train_board;

/**
 * @param verb     in whose name is printed what goes wrong.
 * @param folder   DIR; NULL: nothing is written.
 * @param run      the run's --out, whose last part is the run's name in DIR; NULL: the job's name.
 * @param goes_on  the run is resumed: its folder may be there.
 * @param begins   this process is the first to write. Otherwise it may follow one that is lost.
 * @return false: printed why not.
 */
bool train_board_open(const char *verb, const char *folder, const char *run, bool goes_on,
                      bool begins, train_board **board_out);
/** The next of several trainings in a row begins: out is its --out, or NULL. */
void train_board_stage(train_board *board, const char *out);
/** After each step. */
void train_board_step(train_board *board, const shoal_train *train,
                      const shoal_train_progress *progress);
/** Instead: all that a run which is over has written into OUT/metrics.jsonl. */
void train_board_lines(train_board *board, const char *out, uint32_t workers);
/** False: not all could be written (printed). NULL is allowed, here and above. */
bool train_board_close(train_board *board);

#endif
