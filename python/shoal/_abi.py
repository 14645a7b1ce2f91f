# SPDX-License-Identifier: Apache-2.0
# Made by tools/make_abi.py from include/shoal/*.h: run it after a change there.
# fmt: off
"""The C library's public ABI; a test compares sizes and offsets with the compiler."""

import ctypes as C

VERSION = (0, 1, 0)
# name: (value, text)
STATUSES = {
    "OK": (0, "success"),
    "PENDING": (1, "not finished yet"),
    "EINVAL": (10, "invalid argument"),
    "ENOTSUP": (11, "not supported here"),
    "ECORRUPT": (20, "corrupt data"),
    "ENOTFINITE": (21, "a value is not finite"),
    "ETIMEDOUT": (30, "deadline passed"),
    "ECANCELLED": (31, "operation cancelled"),
    "EMISMATCH": (32, "ranks started different operations"),
    "EPEER": (40, "a peer was lost"),
    "EEPOCH": (41, "the membership changed"),
    "EAUTH": (42, "authentication failed"),
    "EVERSION": (43, "incompatible versions"),
    "ENOMEM": (50, "out of memory"),
    "EIO": (51, "input or output failed"),
    "ESYSTEM": (52, "a system call failed"),
    "EINTERNAL": (53, "internal error: please report"),
    "EFORKED": (54, "handle belongs to the parent process"),
}

SHOAL_OK = 0
SHOAL_PENDING = 1
SHOAL_EINVAL = 10
SHOAL_ENOTSUP = 11
SHOAL_ECORRUPT = 20
SHOAL_ENOTFINITE = 21
SHOAL_ETIMEDOUT = 30
SHOAL_ECANCELLED = 31
SHOAL_EMISMATCH = 32
SHOAL_EPEER = 40
SHOAL_EEPOCH = 41
SHOAL_EAUTH = 42
SHOAL_EVERSION = 43
SHOAL_ENOMEM = 50
SHOAL_EIO = 51
SHOAL_ESYSTEM = 52
SHOAL_EINTERNAL = 53
SHOAL_EFORKED = 54
SHOAL_ACCPAR_MAX = 256
SHOAL_TENSOR_RAW = 1
SHOAL_TENSOR_BIAS = 2
SHOAL_TENSOR_NORM = 4
SHOAL_TENSOR_LAST = 8
SHOAL_TENSOR_CIRCULANT = 16
SHOAL_TENSOR_BITS = 32
SHOAL_TENSOR_ROWS = 64
SHOAL_ALL_REDUCE = 0
SHOAL_REDUCE_SCATTER = 1
SHOAL_ALL_GATHER = 2
SHOAL_BROADCAST = 3
SHOAL_BARRIER = 4
SHOAL_SUM = 0
SHOAL_MAX = 1
SHOAL_CLUSTER_LAB_MAX = 4096
SHOAL_CODEC_LOSSLESS = 1
SHOAL_CODEC_FIXED_RATE = 2
SHOAL_CODEC_PER_TENSOR = 4
SHOAL_CODEC_UNBIASED = 8
SHOAL_CODEC_SUMMABLE = 16
SHOAL_CODEC_RAW_BYTES = 32
SHOAL_CODEC_SLOTS = 64
SHOAL_CODEC_MEASURE = 128
SHOAL_CODEC_TRANSFORM = 256
SHOAL_CODEC_NAN_SAFE = 512
SHOAL_CODEC_SHAPE_FREE = 1024
SHOAL_CODEC_MEASURE_OWN = 2048
SHOAL_CODEC_MEASURE_ALL = 4096
SHOAL_CODEC_MEASURE_RMS = 8192
SHOAL_CODEC_STEPS = 16384
SHOAL_CODEC_GATHERS = 32768
SHOAL_CODEC_LOCAL = 65536
SHOAL_IMAGES_CROP = 0
SHOAL_IMAGES_STRETCH = 1
SHOAL_EXPLORE_TRIALS_MAX = 16
SHOAL_EXPLORE_BASELINE = 0
SHOAL_EXPLORE_SANITY = 1
SHOAL_EXPLORE_BLOCKS = 2
SHOAL_EXPLORE_GRU = 3
SHOAL_EXPLORE_INPUT = 4
SHOAL_EXPLORE_OUTPUT = 5
SHOAL_JOB_SIMULATED = 1
SHOAL_JOB_REFORM = 2
SHOAL_JOB_PLAN = 4
SHOAL_JOB_ADMM = 8
SHOAL_JOB_BATCH_AUTO = 16
SHOAL_JOB_NO_EXCHANGE = 32
SHOAL_JOB_RESUME = 64
SHOAL_JOB_SKIPS = 128
SHOAL_JOB_PACED = 256
SHOAL_JOB_DUMPS = 512
SHOAL_JOB_CLIPS = 1024
SHOAL_JOB_CHECKPOINTS = 2048
SHOAL_JOB_STOPS = 4096
SHOAL_RECOMPUTE_NONE = 0
SHOAL_RECOMPUTE_SELECTIVE = 1
SHOAL_RECOMPUTE_FULL = 2
SHOAL_OBJECTIVE_TIME = 0
SHOAL_OBJECTIVE_COST = 1
SHOAL_OBJECTIVE_ENERGY = 2
SHOAL_OFFLOAD_STATE = 1
SHOAL_OFFLOAD_ACTIVATIONS = 2
SHOAL_NETWORK_PERF = 0
SHOAL_NETWORK_PERF_PER_COST = 1
SHOAL_NETWORK_COST = 2
SHOAL_PARTITION_EXECUTED = 0
SHOAL_PARTITION_FIGURE = 1
SHOAL_PARTITION_TABLE2 = 2
SHOAL_PARTITION_OPTIMUM = 0
SHOAL_PARTITION_GREEDY = 1
SHOAL_PARTITION_EXHAUSTIVE = 2
SHOAL_PARTITION_DATA = 3
SHOAL_PARTITION_MODEL = 4
SHOAL_PARTITION_OWT = 5
SHOAL_PARTITION_GIVEN = 6
SHOAL_PARTITION_LEVELS_MAX = 16
SHOAL_TABLE_SYNCS = 0
SHOAL_TABLE_CODECS = 1
SHOAL_TABLE_COLLECTIVES = 2
SHOAL_TABLE_TRANSPORTS = 3
SHOAL_TABLE_OPTIMIZERS = 4
SHOAL_TABLE_SCHEDULES = 5
SHOAL_TABLE_LAYERS = 6
SHOAL_TABLE_MODELS = 7
SHOAL_TABLE_COUNT = 8
SHOAL_NONFINITE_STOP = 0
SHOAL_NONFINITE_SKIP = 1
SHOAL_SIM_RUNNING = 0
SHOAL_SIM_DONE = 1
SHOAL_SIM_STOPPED = 2
SHOAL_SIM_FAILED = 3
SHOAL_SIM_DEAD = 4
SHOAL_VERDICT_STEPS = 50


class shoal_error(C.Structure):
    _fields_ = [
        ("status", C.c_int),
        ("rank", C.c_int32),
        ("host", C.c_char * 64),
        ("operation", C.c_char * 64),
        ("waited_us", C.c_int64),
        ("os_error", C.c_int32),
        ("text", C.c_char * 512),
        ("advice", C.c_char * 192),
    ]


class shoal_accpar_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("model", C.c_char_p),
        ("batch", C.c_uint32),
        ("count", C.c_uint32),
        ("flops_per_s", C.c_void_p),
        ("bytes_per_s", C.c_double),
        ("types", C.c_uint32),
        ("equal_shares", C.c_int),
    ]


class shoal_accpar_split(C.Structure):
    _fields_ = [
        ("first", C.c_uint32),
        ("count", C.c_uint32),
        ("share", C.c_double),
        ("types", C.c_char_p),
    ]


class shoal_aggregator_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("listen", C.c_char_p),
        ("token", C.c_char_p),
        ("interface", C.c_char_p),
        ("memory_limit_bytes", C.c_uint64),
        ("jobs_max", C.c_uint32),
        ("ports", C.c_char_p),
        ("kernel", C.c_char_p),
    ]


class shoal_aggregator_job(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char * 64),
        ("epoch", C.c_uint64),
        ("ranks", C.c_uint32),
        ("ranks_gone", C.c_uint32),
        ("open_operations", C.c_uint64),
        ("operations", C.c_uint64),
        ("failures", C.c_uint64),
        ("received_bytes", C.c_uint64),
        ("sent_bytes", C.c_uint64),
        ("memory_bytes", C.c_uint64),
        ("memory_peak_bytes", C.c_uint64),
        ("memory_limit_bytes", C.c_uint64),
        ("kernel_operations", C.c_uint64),
        ("age_us", C.c_uint64),
    ]


class shoal_aggregator_stats(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("jobs_open", C.c_uint64),
        ("jobs_ended", C.c_uint64),
        ("jobs_refused", C.c_uint64),
        ("operations", C.c_uint64),
        ("failures", C.c_uint64),
        ("received_bytes", C.c_uint64),
        ("sent_bytes", C.c_uint64),
        ("kernel_operations", C.c_uint64),
        ("in_kernel", C.c_uint32),
    ]


class shoal_circulant_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("in", C.c_uint32),
        ("out", C.c_uint32),
        ("block", C.c_uint32),
        ("batch_max", C.c_uint32),
        ("training", C.c_bool),
        ("first_row", C.c_bool),
    ]


class shoal_circulant_conv_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("in", C.c_uint32),
        ("out", C.c_uint32),
        ("height", C.c_uint32),
        ("width", C.c_uint32),
        ("kernel", C.c_uint32),
        ("stride", C.c_uint32),
        ("pad", C.c_uint32),
        ("block", C.c_uint32),
        ("training", C.c_bool),
        ("rectify", C.c_bool),
    ]


class shoal_comm_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("rendezvous", C.c_char_p),
        ("rank", C.c_int32),
        ("world_size", C.c_int32),
        ("servers", C.c_int32),
        ("job", C.c_char_p),
        ("token", C.c_char_p),
        ("interface", C.c_char_p),
        ("transport", C.c_char_p),
        ("fault", C.c_char_p),
        ("join_timeout_us", C.c_int64),
        ("peer_timeout_us", C.c_int64),
        ("op_timeout_us", C.c_int64),
        ("seed", C.c_uint64),
        ("chunk_elems", C.c_uint32),
        ("aggregators", C.c_char_p),
        ("reform", C.c_bool),
        ("spare", C.c_bool),
        ("doors", C.c_char_p),
    ]


class shoal_view(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("epoch", C.c_uint64),
        ("rank", C.c_uint32),
        ("rank_count", C.c_uint32),
        ("endpoint", C.c_uint32),
        ("workers", C.c_uint32),
        ("done_min", C.c_uint64),
        ("done_max", C.c_uint64),
        ("aggregators", C.c_uint32),
        ("done_rank", C.c_uint32),
    ]


class shoal_peer_stats(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("host", C.c_char * 64),
        ("transport", C.c_char * 16),
        ("sent_frames", C.c_uint64),
        ("sent_payload_bytes", C.c_uint64),
        ("sent_wire_bytes", C.c_uint64),
        ("received_frames", C.c_uint64),
        ("received_payload_bytes", C.c_uint64),
        ("received_wire_bytes", C.c_uint64),
        ("control_bytes", C.c_uint64),
        ("dropped_frames", C.c_uint64),
        ("last_seen_us", C.c_uint64),
        ("acked_bytes", C.c_uint64),
        ("busy_us", C.c_uint64),
        ("line_bytes_s", C.c_uint64),
    ]


class shoal_tensor(C.Structure):
    _fields_ = [
        ("key", C.c_uint64),
        ("offset", C.c_size_t),
        ("count", C.c_size_t),
        ("rows", C.c_uint32),
        ("cols", C.c_uint32),
        ("flags", C.c_uint32),
        ("lr_scale", C.c_float),
    ]


class shoal_op_id(C.Structure):
    _fields_ = [
        ("group", C.c_uint64),
        ("sequence", C.c_uint64),
        ("round", C.c_uint32),
        ("zero", C.c_uint32),
    ]


class shoal_op_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("kind", C.c_int),
        ("reduce", C.c_int),
        ("id", shoal_op_id),
        ("buf", C.c_void_p),
        ("count", C.c_size_t),
        ("tensors", C.POINTER(shoal_tensor)),
        ("tensor_count", C.c_uint32),
        ("members", C.c_void_p),
        ("member_count", C.c_uint32),
        ("contributors", C.c_uint32),
        ("root", C.c_uint32),
        ("collective", C.c_char_p),
        ("push_codec", C.c_char_p),
        ("pull_codec", C.c_char_p),
        ("timeout_us", C.c_int64),
        ("tos", C.c_uint8),
        ("label", C.c_char_p),
        ("rows", C.c_void_p),
        ("row_count", C.c_size_t),
    ]


class shoal_op_stats(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("duration_us", C.c_uint64),
        ("encode_ns", C.c_uint64),
        ("decode_ns", C.c_uint64),
        ("sent_payload_bytes", C.c_uint64),
        ("received_payload_bytes", C.c_uint64),
        ("sent_elems", C.c_uint64),
        ("received_elems", C.c_uint64),
        ("rounds", C.c_uint32),
        ("dense_elems", C.c_uint64),
    ]


class shoal_codec_at(C.Structure):
    _fields_ = [
        ("tensor", C.POINTER(shoal_tensor)),
        ("first", C.c_size_t),
        ("parts", C.c_uint32),
        ("shared", C.c_void_p),
        ("seed", C.c_uint64),
        ("stream", C.c_uint64),
    ]


class shoal_digits_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("dir", C.c_char_p),
        ("seed", C.c_uint64),
        ("train_count", C.c_uint32),
        ("test_count", C.c_uint32),
        ("hard", C.c_double),
    ]


class shoal_digits_progress(C.Structure):
    _fields_ = [
        ("done", C.c_uint64),
        ("total", C.c_uint64),
        ("train_fonts", C.c_uint32),
        ("test_fonts", C.c_uint32),
    ]


class shoal_colours_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("dir", C.c_char_p),
        ("seed", C.c_uint64),
        ("train_count", C.c_uint32),
        ("test_count", C.c_uint32),
        ("hard", C.c_double),
    ]


class shoal_data_progress(C.Structure):
    _fields_ = [
        ("done", C.c_uint64),
        ("total", C.c_uint64),
    ]


class shoal_images_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("dir", C.c_char_p),
        ("from", C.c_char_p),
        ("labels", C.c_char_p),
        ("height", C.c_uint32),
        ("width", C.c_uint32),
        ("fit", C.c_int),
        ("channels", C.c_uint32),
        ("classes", C.c_uint32),
        ("test", C.c_double),
        ("seed", C.c_uint64),
    ]


class shoal_images_info(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("format", C.c_char * 16),
        ("train", C.c_uint64),
        ("test", C.c_uint64),
        ("classes", C.c_uint32),
        ("channels", C.c_uint32),
        ("height", C.c_uint32),
        ("width", C.c_uint32),
        ("problems", C.c_uint32),
    ]


class shoal_clicks_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("dir", C.c_char_p),
        ("seed", C.c_uint64),
        ("train_count", C.c_uint32),
        ("test_count", C.c_uint32),
        ("fields", C.c_uint32),
        ("vocab", C.c_uint32),
        ("skew", C.c_double),
    ]


class shoal_clicks_info(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("samples", C.c_uint64),
        ("clicks", C.c_uint64),
        ("fields", C.c_uint32),
        ("vocab", C.c_uint32),
    ]


class shoal_svmlight_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("dir", C.c_char_p),
        ("from", C.c_char_p),
        ("test_from", C.c_char_p),
        ("test", C.c_double),
        ("seed", C.c_uint64),
        ("vocab", C.c_uint32),
        ("zero_based", C.c_bool),
    ]


class shoal_svmlight_info(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("train", C.c_uint64),
        ("test", C.c_uint64),
        ("pairs", C.c_uint64),
        ("vocab", C.c_uint32),
        ("classes", C.c_uint32),
        ("most", C.c_uint32),
    ]


class shoal_speech_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("dir", C.c_char_p),
        ("program", C.c_char_p),
        ("seed", C.c_uint64),
        ("train_minutes", C.c_double),
        ("test_minutes", C.c_double),
        ("every", C.c_uint32),
        ("noise", C.c_double),
        ("log_mel", C.c_bool),
        ("stack", C.c_bool),
    ]


class shoal_speech_progress(C.Structure):
    _fields_ = [
        ("minutes", C.c_double),
        ("total_minutes", C.c_double),
        ("utterances", C.c_uint32),
        ("train_phonemes", C.c_uint64),
        ("test_phonemes", C.c_uint64),
    ]


class shoal_text_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("dir", C.c_char_p),
        ("files", C.POINTER(C.c_char_p)),
        ("file_count", C.c_uint32),
        ("length", C.c_uint32),
        ("tokens", C.c_char_p),
        ("tell", C.c_void_p),
        ("ctx", C.c_void_p),
    ]


class shoal_text_info(C.Structure):
    _fields_ = [
        ("train_sequences", C.c_uint64),
        ("test_sequences", C.c_uint64),
        ("length", C.c_uint32),
        ("vocabulary", C.c_uint32),
        ("documents", C.c_uint64),
        ("repeated", C.c_uint64),
        ("binary", C.c_uint64),
        ("bytes", C.c_uint64),
        ("tokens", C.c_uint64),
    ]


class shoal_deploy_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("from", C.c_char_p),
        ("model", C.c_char_p),
        ("data", C.c_char_p),
        ("batch", C.c_uint32),
        ("calibrate", C.c_uint32),
        ("samples", C.c_uint32),
    ]


class shoal_deploy_result(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("samples", C.c_uint64),
        ("labels", C.c_uint64),
        ("loss", C.c_double),
        ("accuracy", C.c_double),
        ("symbols", C.c_uint64),
        ("edits", C.c_uint64),
        ("symbol_error_rate", C.c_double),
        ("bits_per_byte", C.c_double),
    ]


class shoal_deploy_matrix(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char * 96),
        ("rows", C.c_uint32),
        ("cols", C.c_uint32),
        ("block", C.c_uint32),
        ("block_rows", C.c_uint32),
        ("block_cols", C.c_uint32),
        ("block_products", C.c_uint64),
        ("weights", C.c_uint64),
        ("multipliers", C.c_uint32),
        ("places", C.c_uint32),
    ]


class shoal_finding(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("kind", C.c_char * 16),
        ("rank", C.c_int32),
        ("peer", C.c_int32),
        ("host", C.c_char * 64),
        ("text", C.c_char * 256),
        ("advice", C.c_char * 256),
    ]


class shoal_doctor_host(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("here", C.c_bool),
        ("host", C.c_char * 64),
        ("interface", C.c_char * 16),
        ("address", C.c_char * 64),
        ("mtu", C.c_uint32),
        ("port_mbit", C.c_uint32),
        ("cores", C.c_uint32),
        ("kernel_tls", C.c_bool),
        ("send_buffer_bytes", C.c_uint64),
        ("receive_buffer_bytes", C.c_uint64),
        ("clock_s", C.c_double),
        ("cpu_share", C.c_double),
        ("speed", C.c_double),
        ("sends_bytes_s", C.c_double),
        ("receives_bytes_s", C.c_double),
    ]


class shoal_doctor_pair(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("reached", C.c_bool),
        ("bytes_per_s", C.c_double),
        ("rtt_s", C.c_double),
        ("hole_bytes", C.c_uint32),
    ]


class shoal_provider(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char * 16),
        ("domain", C.c_char * 64),
    ]


class shoal_explore_choice(C.Structure):
    _fields_ = [
        ("gru", C.c_bool),
        ("k", C.c_uint32),
        ("kx", C.c_uint32),
        ("ky", C.c_uint32),
    ]


class shoal_explore_matrix(C.Structure):
    _fields_ = [
        ("rows", C.c_uint32),
        ("cols", C.c_uint32),
    ]


class shoal_explore_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("limit", C.c_double),
        ("baseline", C.c_double),
        ("memory_bits", C.c_double),
        ("share", C.c_double),
        ("weight_bits", C.c_uint32),
        ("k_most", C.c_uint32),
        ("trials", C.c_uint32),
        ("matrices", C.POINTER(shoal_explore_matrix)),
        ("matrix_count", C.c_uint32),
        ("weights", C.c_void_p),
        ("train", C.c_void_p),
        ("ctx", C.c_void_p),
    ]


class shoal_explore_trial(C.Structure):
    _fields_ = [
        ("step", C.c_int),
        ("choice", shoal_explore_choice),
        ("weights", C.c_uint64),
        ("error", C.c_double),
        ("added", C.c_double),
        ("holds", C.c_bool),
        ("kept", C.c_bool),
    ]


class shoal_explore_result(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("k_low", C.c_uint32),
        ("k_high", C.c_uint32),
        ("baseline", C.c_double),
        ("found", C.c_bool),
        ("chosen", shoal_explore_choice),
        ("weights", C.c_uint64),
        ("error", C.c_double),
        ("trials", shoal_explore_trial * 16),
        ("trial_count", C.c_uint32),
        ("blocks_cut", C.c_bool),
        ("input_left_out", C.c_bool),
        ("output_left_out", C.c_bool),
    ]


class shoal_generate_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("from", C.c_char_p),
        ("data", C.c_char_p),
        ("prompt", C.c_char_p),
        ("temperature", C.c_double),
        ("top_k", C.c_uint32),
        ("seed", C.c_uint64),
    ]


class shoal_generated(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("token", C.c_uint32),
        ("text", C.c_char_p),
        ("len_bytes", C.c_size_t),
        ("end", C.c_bool),
    ]


class shoal_job(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("sync", C.c_char_p),
        ("codec", C.c_char_p),
        ("collective", C.c_char_p),
        ("optimizer", C.c_char_p),
        ("workers", C.c_uint32),
        ("asks", C.c_uint32),
    ]


class shoal_shape(C.Structure):
    _fields_ = [
        ("channels", C.c_uint32),
        ("height", C.c_uint32),
        ("width", C.c_uint32),
    ]


class shoal_model_info(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("input", shoal_shape),
        ("classes", C.c_uint32),
        ("layer_count", C.c_uint32),
        ("tensor_count", C.c_uint32),
        ("param_count", C.c_uint64),
        ("state_count", C.c_uint64),
        ("activation_count", C.c_uint64),
        ("forward_flops", C.c_double),
        ("backward_flops", C.c_double),
        ("described", C.c_bool),
        ("smooths", C.c_bool),
    ]


class shoal_layer_info(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("kind", C.c_char_p),
        ("spec", C.c_char_p),
        ("in", shoal_shape),
        ("out", shoal_shape),
        ("tensor_first", C.c_uint32),
        ("tensor_count", C.c_uint32),
        ("param_offset", C.c_uint64),
        ("param_count", C.c_uint64),
        ("state_offset", C.c_uint64),
        ("state_count", C.c_uint64),
        ("forward_flops", C.c_double),
        ("backward_flops", C.c_double),
        ("described", C.c_bool),
    ]


class shoal_model_memory(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("samples", C.c_uint32),
        ("parameters", C.c_uint64),
        ("gradients", C.c_uint64),
        ("optimizer", C.c_uint64),
        ("state", C.c_uint64),
        ("input", C.c_uint64),
        ("outputs", C.c_uint64),
        ("kept", C.c_uint64),
        ("slopes", C.c_uint64),
        ("work", C.c_uint64),
        ("total", C.c_uint64),
    ]


class shoal_predict_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("model", C.c_char_p),
        ("cluster", C.c_char_p),
        ("plan", C.c_char_p),
        ("workers", C.c_uint32),
        ("tensor", C.c_uint32),
        ("pipeline", C.c_uint32),
        ("batch", C.c_uint32),
        ("microbatch", C.c_uint32),
        ("interleave", C.c_uint32),
        ("recompute", C.c_int),
        ("sequence", C.c_bool),
        ("zero", C.c_uint32),
        ("experts", C.c_uint32),
        ("context", C.c_uint32),
        ("offload", C.c_uint32),
        ("flash", C.c_bool),
        ("no_head", C.c_bool),
        ("no_scatter", C.c_bool),
        ("no_overlap", C.c_bool),
        ("element_bytes", C.c_double),
        ("state_bytes", C.c_double),
        ("gradient_bytes", C.c_double),
        ("sync", C.c_char_p),
        ("collective", C.c_char_p),
        ("codec", C.c_char_p),
        ("bucket_bytes", C.c_size_t),
        ("chunk_elems", C.c_uint32),
        ("objective", C.c_int),
        ("allow_lossy", C.c_bool),
        ("allow_async", C.c_bool),
    ]


class shoal_causes(C.Structure):
    _fields_ = [
        ("matrix", C.c_double),
        ("vector", C.c_double),
        ("memory", C.c_double),
        ("network", C.c_double),
        ("fixed", C.c_double),
    ]


class shoal_prediction(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("iteration_s", C.c_double),
        ("low_s", C.c_double),
        ("high_s", C.c_double),
        ("samples_per_s", C.c_double),
        ("forward_s", C.c_double),
        ("backward_s", C.c_double),
        ("recompute_s", C.c_double),
        ("update_s", C.c_double),
        ("tensor_s", C.c_double),
        ("tensor_again_s", C.c_double),
        ("experts_s", C.c_double),
        ("context_s", C.c_double),
        ("offload_s", C.c_double),
        ("pipeline_s", C.c_double),
        ("exposed_s", C.c_double),
        ("bubble_s", C.c_double),
        ("straggler_s", C.c_double),
        ("other_s", C.c_double),
        ("by_data_s", C.c_double),
        ("hidden_s", C.c_double),
        ("codec_s", C.c_double),
        ("sent_bytes", C.c_double),
        ("causes", shoal_causes),
        ("weight_bytes", C.c_double),
        ("gradient_bytes", C.c_double),
        ("state_bytes", C.c_double),
        ("activation_bytes", C.c_double),
        ("buffer_bytes", C.c_double),
        ("memory_bytes", C.c_double),
        ("capacity_bytes", C.c_double),
        ("params", C.c_double),
        ("price", C.c_double),
        ("watts", C.c_double),
        ("workers", C.c_uint32),
        ("data", C.c_uint32),
        ("tensor", C.c_uint32),
        ("pipeline", C.c_uint32),
        ("context", C.c_uint32),
        ("bottleneck", C.c_char * 160),
        ("all_reduce_s", C.c_double),
        ("models_s", C.c_double),
    ]


class shoal_sensitivity(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("one_more", C.c_double),
        ("faster_link", C.c_double),
        ("faster_compute", C.c_double),
        ("elasticity_link", C.c_double),
        ("elasticity_compute", C.c_double),
        ("elasticity_memory", C.c_double),
        ("elasticity_latency", C.c_double),
        ("link_for", C.c_double * 4),
    ]


class shoal_candidate(C.Structure):
    _fields_ = [
        ("desc", shoal_predict_desc),
        ("prediction", shoal_prediction),
        ("why", C.c_char * 200),
        ("ties", C.c_uint32),
    ]


class shoal_calibrate_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("models", C.c_char_p),
        ("batches", C.c_char_p),
        ("codecs", C.c_char_p),
        ("budget_s", C.c_double),
    ]


class shoal_calibrate_network(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("hosts", C.c_uint32),
        ("cores", C.c_uint32),
        ("nic_bytes_per_s", C.c_double),
        ("payload_share", C.c_double),
        ("latency_s", C.c_double),
        ("operation_s", C.c_double),
        ("round_s", C.c_double),
        ("cpu_s_per_byte", C.c_double),
        ("spread", C.c_double),
    ]


class shoal_fit_factors(C.Structure):
    _fields_ = [
        ("matrix", C.c_double),
        ("memory", C.c_double),
        ("inside", C.c_double),
        ("network", C.c_double),
    ]


class shoal_fit_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("cluster", C.c_char_p),
        ("rows", C.POINTER(shoal_predict_desc)),
        ("seconds", C.c_void_p),
        ("count", C.c_size_t),
        ("hold", C.c_double),
        ("seed", C.c_uint64),
    ]


class shoal_fit(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("factors", shoal_fit_factors),
        ("at_bound", C.c_bool * 4),
        ("not_seen", C.c_bool * 4),
        ("fitted", C.c_uint32),
        ("held", C.c_uint32),
        ("mean_error", C.c_double),
        ("worst_error", C.c_double),
        ("rms_error", C.c_double),
        ("held_mean_error", C.c_double),
        ("held_worst_error", C.c_double),
        ("held_rms_error", C.c_double),
    ]


class shoal_network_job(C.Structure):
    _fields_ = [
        ("workload", C.c_char_p),
        ("communicator", C.c_char_p),
        ("weight", C.c_double),
        ("model", C.POINTER(shoal_predict_desc)),
    ]


class shoal_network_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("network", C.c_char_p),
        ("cost", C.c_char_p),
        ("fixed_cost", C.c_double),
        ("jobs", C.POINTER(shoal_network_job)),
        ("job_count", C.c_uint32),
        ("overlap", C.c_bool),
        ("recompute", C.c_bool),
    ]


class shoal_network_info(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("dims", C.c_uint32),
        ("npus", C.c_double),
        ("topology", C.c_char_p * 8),
        ("members", C.c_uint32 * 8),
        ("unit_cost", C.c_double * 8),
        ("traffic", C.c_double * 8),
        ("has_cost", C.c_bool),
        ("compute_ns", C.c_double),
        ("terms", C.c_uint32),
    ]


class shoal_network_collective(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("layer", C.c_char_p),
        ("phase", C.c_char_p),
        ("kind", C.c_char_p),
        ("bytes", C.c_double),
        ("volume", C.c_double * 8),
    ]


class shoal_network_schedule(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("time_ns", C.c_double),
        ("fixed_ns", C.c_double),
        ("chosen_ns", C.c_double),
        ("bound_ns", C.c_double),
    ]


class shoal_network_question(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("objective", C.c_int),
        ("limits", C.POINTER(C.c_char_p)),
        ("limit_count", C.c_uint32),
    ]


class shoal_network_answer(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("bandwidth", C.c_double * 8),
        ("time_ns", C.c_double),
        ("cost", C.c_double),
        ("objective", C.c_double),
        ("bound", C.c_double),
        ("gap", C.c_double),
        ("equal_time_ns", C.c_double),
        ("equal_cost", C.c_double),
        ("utilisation", C.c_double),
        ("low", C.c_double * 8),
        ("high", C.c_double * 8),
        ("price", C.c_double * 8),
        ("solves", C.c_uint32),
        ("steps", C.c_uint32),
    ]


class shoal_network_space(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("npus", C.c_uint64),
        ("blocks", C.POINTER(C.c_char_p)),
        ("block_count", C.c_uint32),
        ("dims_max", C.c_uint32),
    ]


class shoal_network_shape(C.Structure):
    _fields_ = [
        ("dims", C.c_uint32),
        ("topology", C.c_char_p * 8),
        ("members", C.c_uint32 * 8),
        ("unit_cost", C.c_double * 8),
        ("answer", shoal_network_answer),
    ]


class shoal_network_choice(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("shapes", C.c_uint64),
        ("misfits", C.c_uint64),
        ("solved", C.c_uint64),
        ("beyond", C.c_uint64),
        ("excluded", C.c_uint64),
        ("objective", C.c_double),
        ("bound", C.c_double),
        ("gap", C.c_double),
    ]


class shoal_partition_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("model", C.c_char_p),
        ("batch", C.c_uint32),
        ("levels", C.c_uint32),
        ("mode", C.c_int),
        ("method", C.c_int),
        ("given", C.c_char_p),
    ]


class shoal_partition_info(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("model", C.c_char_p),
        ("batch", C.c_uint32),
        ("levels", C.c_uint32),
        ("layer_count", C.c_uint32),
        ("mode", C.c_int),
        ("method", C.c_int),
        ("elements", C.c_uint64),
        ("bias_elements", C.c_uint64),
        ("executed_elements", C.c_uint64),
        ("macs", C.c_double),
        ("graph", C.c_bool),
        ("why_not", C.c_char_p),
    ]


class shoal_partition_layer_info(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("kind", C.c_char_p),
        ("weights", C.c_uint64),
        ("outputs", C.c_uint64),
        ("mask", C.c_uint32),
    ]


class shoal_row(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("about", C.c_char_p),
        ("trait_count", C.c_uint32),
        ("key_count", C.c_uint32),
        ("bytes_per_element", C.c_double),
    ]


class shoal_row_key(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("fallback", C.c_char_p),
        ("help", C.c_char_p),
        ("syntax", C.c_char * 160),
    ]


class shoal_run_summary(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("state", C.c_char * 16),
        ("text", C.c_char * 512),
        ("resumes", C.c_bool),
        ("began", C.c_char * 32),
        ("model", C.c_char * 96),
        ("data", C.c_char * 512),
        ("sync", C.c_char * 96),
        ("collective", C.c_char * 96),
        ("codec", C.c_char * 96),
        ("workers", C.c_uint32),
        ("epochs", C.c_uint32),
        ("steps", C.c_uint64),
        ("step", C.c_uint64),
        ("epoch", C.c_uint64),
        ("resumes_from", C.c_uint64),
        ("loss", C.c_double),
        ("accuracy", C.c_double),
        ("checkpoints", C.c_uint32),
        ("simulated", C.c_bool),
    ]


class shoal_run_checkpoint(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char * 64),
        ("step", C.c_uint64),
        ("epoch", C.c_uint64),
        ("state", C.c_char * 16),
        ("text", C.c_char * 512),
        ("latest", C.c_bool),
    ]


class shoal_sync_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("sync", C.c_char_p),
        ("collective", C.c_char_p),
        ("codec", C.c_char_p),
        ("params", C.c_void_p),
        ("grads", C.c_void_p),
        ("count", C.c_size_t),
        ("tensors", C.POINTER(shoal_tensor)),
        ("tensor_count", C.c_uint32),
        ("bucket_bytes", C.c_size_t),
        ("nonfinite", C.c_int),
        ("iteration", C.c_uint64),
        ("tos", C.c_uint8),
    ]


class shoal_verdict(C.Structure):
    _fields_ = [
        ("apply", C.c_bool),
        ("stop", C.c_bool),
        ("skipped", C.c_bool),
        ("grad_scale", C.c_float),
        ("iteration", C.c_uint64),
    ]


class shoal_sync_stats(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("wait_us", C.c_uint64),
        ("comm_us", C.c_uint64),
        ("encode_ns", C.c_uint64),
        ("decode_ns", C.c_uint64),
        ("sent_payload_bytes", C.c_uint64),
        ("received_payload_bytes", C.c_uint64),
        ("sent_elems", C.c_uint64),
        ("received_elems", C.c_uint64),
        ("operations", C.c_uint32),
        ("dense_elems", C.c_uint64),
    ]


class shoal_sim_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("workers", C.c_uint32),
        ("iterations", C.c_uint64),
        ("sync", C.c_char_p),
        ("collective", C.c_char_p),
        ("codec", C.c_char_p),
        ("compute", C.c_char_p),
        ("network", C.c_char_p),
        ("cluster", C.c_char_p),
        ("model", C.c_char_p),
        ("faults", C.c_char_p),
        ("problem", C.c_char_p),
        ("tensors", C.POINTER(shoal_tensor)),
        ("tensor_count", C.c_uint32),
        ("bucket_bytes", C.c_size_t),
        ("nonfinite", C.c_int),
        ("seed", C.c_uint64),
        ("chunk_elems", C.c_uint32),
        ("until_s", C.c_double),
        ("inflate", C.c_double),
        ("timeline", C.c_char_p),
        ("log", C.c_char_p),
    ]


class shoal_sim_results(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("duration_ns", C.c_uint64),
        ("iteration_ns", C.c_uint64),
        ("iterations_min", C.c_uint64),
        ("iterations_max", C.c_uint64),
        ("gradients", C.c_uint64),
        ("gap_max", C.c_uint64),
        ("staleness_max", C.c_uint64),
        ("compute_ns", C.c_uint64),
        ("idle_ns", C.c_uint64),
        ("sent_bytes", C.c_uint64),
        ("busiest_link_bytes", C.c_uint64),
        ("operations", C.c_uint64),
        ("skipped", C.c_uint64),
        ("events", C.c_uint64),
        ("log_hash", C.c_uint64),
        ("params", C.c_uint64),
        ("epochs", C.c_uint64),
        ("excess", C.c_double),
        ("train_loss", C.c_double),
        ("test_loss", C.c_double),
        ("test_accuracy", C.c_double),
    ]


class shoal_sim_endpoint_results(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("end", C.c_int),
        ("status", C.c_int),
        ("text", C.c_char * 256),
        ("iterations", C.c_uint64),
        ("gradients", C.c_uint64),
        ("compute_ns", C.c_uint64),
        ("idle_ns", C.c_uint64),
        ("sent_bytes", C.c_uint64),
        ("received_bytes", C.c_uint64),
        ("test_accuracy", C.c_double),
        ("refused", C.c_uint64),
    ]


class shoal_sim_progress(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("done", C.c_double),
        ("total", C.c_double),
        ("virtual_s", C.c_double),
    ]


class shoal_sim_files(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("out", C.c_char_p),
        ("trace", C.c_char_p),
        ("options", C.c_char_p),
    ]


class shoal_sim_point(C.Structure):
    _fields_ = [
        ("time_s", C.c_double),
        ("iterations", C.c_double),
        ("loss", C.c_double),
        ("consensus", C.c_double),
        ("iterations_min", C.c_uint64),
        ("iterations_max", C.c_uint64),
    ]


class shoal_sparse_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("count", C.c_size_t),
        ("block", C.c_uint32),
        ("fusion", C.c_uint32),
        ("slots", C.c_uint32),
        ("workers", C.c_uint32),
        ("aggregators", C.c_uint32),
        ("dedicated", C.c_bool),
        ("head_bytes", C.c_uint32),
    ]


class shoal_sparse_cost(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("blocks", C.c_uint64),
        ("density", C.c_double),
        ("together", C.c_double),
        ("moved", C.c_double),
        ("naive_bytes", C.c_double),
        ("busiest_bytes", C.c_double),
        ("ring_bytes", C.c_double),
    ]


class shoal_train_desc(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("model", C.c_char_p),
        ("data", C.c_char_p),
        ("out", C.c_char_p),
        ("plan", C.c_char_p),
        ("resume", C.c_char_p),
        ("start", C.c_char_p),
        ("admm", C.c_char_p),
        ("admm_model", C.c_char_p),
        ("sync", C.c_char_p),
        ("collective", C.c_char_p),
        ("codec", C.c_char_p),
        ("optimizer", C.c_char_p),
        ("schedule", C.c_char_p),
        ("lr", C.c_double),
        ("clip_norm", C.c_double),
        ("augment", C.c_char_p),
        ("label_smoothing", C.c_double),
        ("batch", C.c_uint32),
        ("batch_auto", C.c_bool),
        ("epochs", C.c_uint32),
        ("max_steps", C.c_uint64),
        ("seed", C.c_uint64),
        ("bucket_bytes", C.c_size_t),
        ("nonfinite", C.c_int),
        ("check_every", C.c_uint32),
        ("checkpoint_every", C.c_uint64),
        ("slow", C.c_double),
        ("compute_ms", C.c_double),
        ("no_overlap", C.c_bool),
        ("no_exchange", C.c_bool),
        ("no_evaluation", C.c_bool),
        ("evaluate_every", C.c_uint32),
        ("simulate", C.c_uint32),
        ("dump_gradients", C.c_char_p),
        ("dump_every", C.c_uint64),
        ("tos", C.c_uint8),
        ("reform", C.c_bool),
        ("trace", C.c_char_p),
        ("trace_last", C.c_uint64),
        ("options", C.c_char_p),
        ("slow_random", C.c_char_p),
        ("may_stop", C.c_bool),
        ("keep_events", C.c_bool),
    ]


class shoal_admm(C.Structure):
    _fields_ = [
        ("rho", C.c_double),
        ("factor", C.c_double),
        ("iterations", C.c_int64),
        ("epochs", C.c_int64),
        ("dense", C.c_int64),
        ("lr", C.c_double),
    ]


class shoal_train_progress(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("step", C.c_uint64),
        ("steps", C.c_uint64),
        ("epoch", C.c_uint32),
        ("epochs", C.c_uint32),
        ("loss", C.c_double),
        ("samples_per_s", C.c_double),
        ("epoch_ended", C.c_bool),
        ("train_loss", C.c_double),
        ("test_loss", C.c_double),
        ("test_accuracy", C.c_double),
        ("symbol_error_rate", C.c_double),
        ("bits_per_byte", C.c_double),
        ("epoch_s", C.c_double),
        ("admm_gap", C.c_double),
        ("skipped", C.c_bool),
        ("done", C.c_bool),
        ("slow_rank", C.c_int32),
        ("slow_cause", C.c_char * 8),
        ("reports", C.c_bool),
        ("stopped", C.c_bool),
    ]


class shoal_train_candidate(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("codec", C.c_char_p),
        ("lossless", C.c_bool),
        ("chosen", C.c_bool),
        ("barred", C.c_bool),
        ("error", C.c_double),
        ("exchange_ms", C.c_double),
        ("code_ms", C.c_double),
        ("sent_bytes", C.c_double),
        ("step_ms", C.c_double),
    ]


class shoal_train_codec_check(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("most", C.c_double),
        ("every", C.c_uint64),
        ("checks", C.c_uint64),
        ("last", C.c_double),
    ]


class shoal_train_codec_fall(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("from", C.c_char_p),
        ("to", C.c_char_p),
        ("step", C.c_uint64),
        ("error", C.c_double),
    ]


class shoal_train_totals(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("steps", C.c_uint64),
        ("skipped", C.c_uint64),
        ("samples", C.c_uint64),
        ("step_s", C.c_double),
        ("compute_s", C.c_double),
        ("wait_s", C.c_double),
        ("update_s", C.c_double),
        ("exchange_s", C.c_double),
        ("encode_s", C.c_double),
        ("decode_s", C.c_double),
        ("sent_bytes", C.c_double),
        ("received_bytes", C.c_double),
        ("dense_bytes", C.c_double),
        ("checkpoint_step", C.c_uint64),
        ("membership", C.c_uint64),
        ("workers", C.c_uint32),
        ("lost", C.c_uint32),
        ("data_s", C.c_double),
        ("forward_s", C.c_double),
        ("backward_s", C.c_double),
    ]


class shoal_train_summary(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("workers", C.c_uint32),
        ("steps", C.c_uint64),
        ("params", C.c_uint64),
        ("test_loss", C.c_double),
        ("test_accuracy", C.c_double),
        ("train_loss", C.c_double),
        ("symbol_error_rate", C.c_double),
        ("bits_per_byte", C.c_double),
        ("seconds", C.c_double),
        ("epoch_s", C.c_double),
        ("step_ms", C.c_double),
        ("compute_ms", C.c_double),
        ("wait_ms", C.c_double),
        ("comm_ms", C.c_double),
        ("encode_ms", C.c_double),
        ("decode_ms", C.c_double),
        ("update_ms", C.c_double),
        ("slowest_step_ms", C.c_double),
        ("payload_bytes", C.c_double),
        ("raw_bytes", C.c_double),
        ("skipped", C.c_uint64),
        ("worker_accuracy_min", C.c_double),
        ("worker_accuracy_max", C.c_double),
        ("ranks", C.c_uint32),
        ("reporter", C.c_uint32),
        ("trace_error_us", C.c_double),
    ]


class shoal_train_loss(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("rank", C.c_uint32),
        ("epoch", C.c_uint64),
        ("after_s", C.c_double),
        ("step", C.c_uint64),
        ("host", C.c_char * 64),
        ("why", C.c_char * 256),
    ]


class shoal_train_traced(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("ranks", C.c_uint32),
        ("told", C.c_uint32),
        ("events", C.c_uint64),
        ("seconds", C.c_double),
    ]


class shoal_train_rank(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("host", C.c_char * 64),
        ("compute_ms", C.c_double),
        ("wait_ms", C.c_double),
        ("caused_ms", C.c_double),
        ("last_share", C.c_double),
        ("since_step", C.c_uint64),
        ("sends_bytes_s", C.c_double),
        ("receives_bytes_s", C.c_double),
        ("cause", C.c_char * 16),
        ("data_ms", C.c_double),
        ("disk_ms", C.c_double),
        ("paused_ms", C.c_double),
        ("samples", C.c_double),
    ]


class shoal_watch_rank_state(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("host", C.c_char * 64),
        ("state", C.c_char * 16),
        ("cause", C.c_char * 16),
        ("slow_s", C.c_double),
        ("caused_ms", C.c_double),
        ("last_share", C.c_double),
        ("busy", C.c_bool),
        ("operation", C.c_char * 64),
        ("doing_s", C.c_double),
        ("ended", C.c_uint64),
        ("last_seen_s", C.c_double),
        ("compute_ms", C.c_double),
        ("sends_bytes_s", C.c_double),
        ("receives_bytes_s", C.c_double),
        ("data_ms", C.c_double),
        ("disk_ms", C.c_double),
        ("paused_ms", C.c_double),
        ("samples", C.c_double),
        ("step", C.c_uint64),
        ("epoch", C.c_uint32),
        ("loss", C.c_double),
        ("accuracy", C.c_double),
    ]


# What the *_INIT macros set besides size; all else is zero.
DEFAULTS = {
    "shoal_aggregator_desc": {},
    "shoal_circulant_desc": {"batch_max": 1},
    "shoal_circulant_conv_desc": {"kernel": 1, "stride": 1, "block": 1},
    "shoal_digits_desc": {},
    "shoal_colours_desc": {},
    "shoal_images_desc": {},
    "shoal_clicks_desc": {},
    "shoal_svmlight_desc": {},
    "shoal_speech_desc": {},
    "shoal_text_desc": {},
    "shoal_deploy_desc": {},
    "shoal_explore_desc": {"baseline": float("nan")},
    "shoal_generate_desc": {},
    "shoal_job": {},
    "shoal_model_info": {},
    "shoal_layer_info": {},
    "shoal_model_memory": {},
    "shoal_network_desc": {},
    "shoal_network_question": {},
    "shoal_network_space": {"dims_max": 4},
    "shoal_partition_desc": {},
    "shoal_partition_info": {},
    "shoal_predict_desc": {},
    "shoal_prediction": {},
    "shoal_sensitivity": {},
    "shoal_calibrate_desc": {},
    "shoal_fit_desc": {},
    "shoal_fit": {},
    "shoal_comm_desc": {"rank": -1, "world_size": -1},
    "shoal_op_desc": {},
    "shoal_sim_desc": {},
    "shoal_sim_files": {},
    "shoal_sync_desc": {},
    "shoal_train_desc": {},
}

STATUS = "status"
# name: (result, arguments)
FUNCTIONS = {
    "shoal_status_name": (C.c_char_p, [C.c_int]),
    "shoal_status_text": (C.c_char_p, [C.c_int]),
    "shoal_last_error": (C.POINTER(shoal_error), []),
    "shoal_accpar_create": (STATUS, [C.POINTER(shoal_accpar_desc), C.POINTER(C.c_void_p)]),
    "shoal_accpar_destroy": (None, [C.c_void_p]),
    "shoal_accpar_seconds": (C.c_double, [C.c_void_p]),
    "shoal_accpar_split_at": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_accpar_split)]),
    "shoal_aggregator_create": (STATUS, [C.POINTER(shoal_aggregator_desc), C.POINTER(C.c_void_p)]),
    "shoal_aggregator_destroy": (None, [C.c_void_p]),
    "shoal_aggregator_port": (C.c_uint16, [C.c_void_p]),
    "shoal_aggregator_wait": (STATUS, [C.c_void_p, C.c_uint64, C.c_int64]),
    "shoal_aggregator_report": (C.c_uint32, [C.c_void_p, C.POINTER(shoal_aggregator_stats), C.POINTER(shoal_aggregator_job), C.c_uint32]),
    "shoal_circulant_weights": (C.c_size_t, [C.POINTER(shoal_circulant_desc)]),
    "shoal_circulant_bytes": (STATUS, [C.POINTER(shoal_circulant_desc), C.c_void_p]),
    "shoal_circulant_init": (STATUS, [C.POINTER(shoal_circulant_desc), C.c_void_p, C.POINTER(C.c_void_p)]),
    "shoal_circulant_set_weights": (None, [C.c_void_p, C.c_void_p]),
    "shoal_circulant_forward": (None, [C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p, C.c_void_p]),
    "shoal_circulant_backward": (None, [C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p, C.c_void_p]),
    "shoal_circulant_sums": (C.c_size_t, [C.POINTER(shoal_circulant_desc)]),
    "shoal_circulant_learn": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p]),
    "shoal_circulant_learned": (None, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "shoal_circulant_multiply": (None, [C.c_void_p, C.c_size_t]),
    "shoal_circulant_expand": (None, [C.POINTER(shoal_circulant_desc), C.c_void_p, C.c_void_p]),
    "shoal_circulant_project": (None, [C.POINTER(shoal_circulant_desc), C.c_void_p, C.c_void_p]),
    "shoal_circulant_convert": (None, [C.POINTER(shoal_circulant_desc), C.c_void_p]),
    "shoal_circulant_conv_weights": (C.c_size_t, [C.POINTER(shoal_circulant_conv_desc)]),
    "shoal_circulant_conv_bytes": (STATUS, [C.POINTER(shoal_circulant_conv_desc), C.c_void_p]),
    "shoal_circulant_conv_init": (STATUS, [C.POINTER(shoal_circulant_conv_desc), C.c_void_p, C.POINTER(C.c_void_p)]),
    "shoal_circulant_conv_set_weights": (None, [C.c_void_p, C.c_void_p]),
    "shoal_circulant_conv_forward": (None, [C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p, C.c_void_p]),
    "shoal_circulant_conv_backward": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p, C.c_void_p]),
    "shoal_version": (C.c_char_p, []),
    "shoal_comm_create": (STATUS, [C.POINTER(shoal_comm_desc), C.POINTER(C.c_void_p)]),
    "shoal_comm_destroy": (None, [C.c_void_p]),
    "shoal_comm_view": (STATUS, [C.c_void_p, C.POINTER(shoal_view)]),
    "shoal_comm_reform": (STATUS, [C.POINTER(C.c_void_p), C.c_uint64, C.c_int64, C.POINTER(shoal_view)]),
    "shoal_comm_reform_wanted": (C.c_bool, [C.c_void_p]),
    "shoal_comm_peer_stats": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_peer_stats)]),
    "shoal_op_start": (STATUS, [C.c_void_p, C.POINTER(shoal_op_desc), C.POINTER(C.c_void_p)]),
    "shoal_op_prepare": (STATUS, [C.c_void_p, C.POINTER(shoal_op_desc), C.POINTER(C.c_void_p)]),
    "shoal_op_run": (STATUS, [C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p)]),
    "shoal_op_plan_destroy": (None, [C.c_void_p]),
    "shoal_op_wait": (STATUS, [C.POINTER(C.c_void_p), C.c_int64, C.POINTER(shoal_op_stats)]),
    "shoal_op_cancel": (None, [C.c_void_p]),
    "shoal_comm_next_done": (STATUS, [C.c_void_p, C.c_int64, C.POINTER(C.c_void_p)]),
    "shoal_comm_shard": (STATUS, [C.c_void_p, C.c_uint32, C.c_size_t, C.c_void_p, C.c_void_p]),
    "shoal_allreduce": (STATUS, [C.c_void_p, C.c_void_p, C.c_size_t, C.c_char_p, C.c_char_p]),
    "shoal_reduce_scatter": (STATUS, [C.c_void_p, C.c_void_p, C.c_size_t, C.c_char_p, C.c_char_p]),
    "shoal_allgather": (STATUS, [C.c_void_p, C.c_void_p, C.c_size_t, C.c_char_p, C.c_char_p]),
    "shoal_broadcast": (STATUS, [C.c_void_p, C.c_void_p, C.c_size_t, C.c_uint32]),
    "shoal_barrier": (STATUS, [C.c_void_p]),
    "shoal_cluster_lab": (STATUS, [C.c_char_p, C.c_void_p, C.c_void_p, C.c_size_t]),
    "shoal_codec_open": (STATUS, [C.c_char_p, C.POINTER(C.c_void_p)]),
    "shoal_codec_close": (None, [C.c_void_p]),
    "shoal_codec_name": (C.c_char_p, [C.c_void_p]),
    "shoal_codec_spec": (C.c_char_p, [C.c_void_p]),
    "shoal_codec_traits": (C.c_uint32, [C.c_void_p]),
    "shoal_codec_error_bound": (C.c_double, [C.c_void_p]),
    "shoal_codec_variance": (C.c_double, [C.c_void_p]),
    "shoal_codec_bytes_per_elem": (C.c_double, [C.c_void_p, C.c_uint32]),
    "shoal_codec_bound": (C.c_size_t, [C.c_void_p, C.c_size_t, C.c_uint32]),
    "shoal_codec_encode": (STATUS, [C.c_void_p, C.POINTER(shoal_codec_at), C.c_void_p, C.c_size_t, C.c_void_p, C.c_size_t, C.c_void_p]),
    "shoal_codec_decode": (STATUS, [C.c_void_p, C.POINTER(shoal_codec_at), C.c_void_p, C.c_size_t, C.c_void_p, C.c_size_t, C.c_bool, C.c_void_p]),
    "shoal_codec_measure_count": (C.c_size_t, [C.c_void_p]),
    "shoal_codec_measure": (STATUS, [C.c_void_p, C.POINTER(shoal_tensor), C.c_void_p, C.c_void_p]),
    "shoal_codec_carried": (STATUS, [C.c_char_p, C.c_char_p]),
    "shoal_codec_row_name": (C.c_char_p, [C.c_size_t]),
    "shoal_digits_open": (STATUS, [C.POINTER(shoal_digits_desc), C.POINTER(C.c_void_p)]),
    "shoal_digits_step": (STATUS, [C.c_void_p, C.POINTER(shoal_digits_progress)]),
    "shoal_digits_close": (None, [C.c_void_p]),
    "shoal_colours_open": (STATUS, [C.POINTER(shoal_colours_desc), C.POINTER(C.c_void_p)]),
    "shoal_colours_step": (STATUS, [C.c_void_p, C.POINTER(shoal_data_progress)]),
    "shoal_colours_close": (None, [C.c_void_p]),
    "shoal_images_make": (STATUS, [C.POINTER(shoal_images_desc), C.POINTER(shoal_images_info)]),
    "shoal_images_check": (STATUS, [C.POINTER(shoal_images_desc), C.c_void_p, C.c_void_p, C.POINTER(shoal_images_info)]),
    "shoal_clicks_make": (STATUS, [C.POINTER(shoal_clicks_desc), C.POINTER(shoal_clicks_info)]),
    "shoal_svmlight_make": (STATUS, [C.POINTER(shoal_svmlight_desc), C.POINTER(shoal_svmlight_info)]),
    "shoal_speech_open": (STATUS, [C.POINTER(shoal_speech_desc), C.POINTER(C.c_void_p)]),
    "shoal_speech_step": (STATUS, [C.c_void_p, C.POINTER(shoal_speech_progress)]),
    "shoal_speech_close": (None, [C.c_void_p]),
    "shoal_text_make": (STATUS, [C.POINTER(shoal_text_desc), C.POINTER(shoal_text_info)]),
    "shoal_deploy_open": (STATUS, [C.POINTER(shoal_deploy_desc), C.POINTER(C.c_void_p)]),
    "shoal_deploy_close": (None, [C.c_void_p]),
    "shoal_deploy_evaluate": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_deploy_result)]),
    "shoal_deploy_export": (STATUS, [C.c_void_p, C.c_uint32, C.c_char_p, C.c_char_p]),
    "shoal_deploy_weights": (STATUS, [C.c_void_p, C.c_char_p]),
    "shoal_deploy_onnx": (STATUS, [C.c_void_p, C.c_char_p]),
    "shoal_deploy_matrix_of": (C.c_bool, [C.c_void_p, C.c_uint32, C.POINTER(shoal_deploy_matrix)]),
    "shoal_deploy_cycles": (C.c_uint64, [C.POINTER(shoal_deploy_matrix), C.c_uint32, C.c_uint32]),
    "shoal_provider_at": (C.c_bool, [C.c_size_t, C.POINTER(shoal_provider)]),
    "shoal_doctor_run": (STATUS, [C.POINTER(shoal_comm_desc), C.POINTER(C.c_void_p)]),
    "shoal_doctor_place": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p]),
    "shoal_doctor_count": (C.c_uint32, [C.c_void_p]),
    "shoal_doctor_finding": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_finding)]),
    "shoal_doctor_host_of": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_doctor_host)]),
    "shoal_doctor_pair_of": (STATUS, [C.c_void_p, C.c_uint32, C.c_uint32, C.POINTER(shoal_doctor_pair)]),
    "shoal_doctor_destroy": (None, [C.c_void_p]),
    "shoal_explore": (STATUS, [C.POINTER(shoal_explore_desc), C.POINTER(shoal_explore_result)]),
    "shoal_generate_open": (STATUS, [C.POINTER(shoal_generate_desc), C.POINTER(C.c_void_p)]),
    "shoal_generate_prompt": (C.c_bool, [C.c_void_p, C.c_size_t, C.POINTER(shoal_generated)]),
    "shoal_generate_next": (STATUS, [C.c_void_p, C.POINTER(shoal_generated)]),
    "shoal_generate_close": (None, [C.c_void_p]),
    "shoal_job_option": (C.c_char_p, [C.c_size_t]),
    "shoal_job_check": (STATUS, [C.POINTER(shoal_job)]),
    "shoal_model_open": (STATUS, [C.c_char_p, C.POINTER(C.c_void_p)]),
    "shoal_model_close": (None, [C.c_void_p]),
    "shoal_model_describe": (STATUS, [C.c_void_p, C.POINTER(shoal_model_info)]),
    "shoal_model_layer": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_layer_info)]),
    "shoal_model_tensors": (C.POINTER(shoal_tensor), [C.c_void_p, C.c_void_p]),
    "shoal_model_tensor_name": (C.c_char_p, [C.c_void_p, C.c_uint32]),
    "shoal_model_memory_of": (STATUS, [C.c_void_p, C.c_uint32, C.c_char_p, C.POINTER(shoal_model_memory)]),
    "shoal_model_save": (STATUS, [C.c_void_p, C.c_char_p]),
    "shoal_model_zoo_name": (C.c_char_p, [C.c_size_t]),
    "shoal_layer_row_name": (C.c_char_p, [C.c_size_t]),
    "shoal_model_zoo_help": (C.c_char_p, [C.c_size_t]),
    "shoal_layer_row_help": (C.c_char_p, [C.c_size_t]),
    "shoal_predict": (STATUS, [C.POINTER(shoal_predict_desc), C.POINTER(shoal_prediction)]),
    "shoal_predict_sensitivity": (STATUS, [C.POINTER(shoal_predict_desc), C.POINTER(shoal_sensitivity)]),
    "shoal_predict_search": (STATUS, [C.POINTER(shoal_predict_desc), C.c_uint32, C.POINTER(C.c_void_p)]),
    "shoal_predict_search_watched": (STATUS, [C.POINTER(shoal_predict_desc), C.c_uint32, C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p)]),
    "shoal_search_destroy": (None, [C.c_void_p]),
    "shoal_search_at": (C.POINTER(shoal_candidate), [C.c_void_p, C.c_uint32]),
    "shoal_search_front": (C.POINTER(shoal_candidate), [C.c_void_p, C.c_uint32]),
    "shoal_search_tried": (C.c_uint64, [C.c_void_p, C.c_void_p]),
    "shoal_search_bounded": (C.c_uint64, [C.c_void_p]),
    "shoal_calibrate_open": (STATUS, [C.POINTER(shoal_calibrate_desc), C.POINTER(C.c_void_p)]),
    "shoal_calibrate_close": (None, [C.c_void_p]),
    "shoal_calibrate_set_network": (STATUS, [C.c_void_p, C.POINTER(shoal_calibrate_network)]),
    "shoal_calibrate_add_link": (STATUS, [C.c_void_p, C.c_uint32, C.c_uint32, C.c_double, C.c_double, C.c_double]),
    "shoal_calibrate_save": (STATUS, [C.c_void_p, C.c_char_p]),
    "shoal_calibrate_probe": (C.c_double, []),
    "shoal_calibrate_fit": (STATUS, [C.POINTER(shoal_fit_desc), C.POINTER(shoal_fit), C.c_void_p]),
    "shoal_calibrate_spread": (STATUS, [C.POINTER(shoal_fit_desc), C.c_void_p]),
    "shoal_calibrate_apply": (STATUS, [C.c_char_p, C.POINTER(shoal_fit_factors), C.c_double, C.c_char_p]),
    "shoal_network_open": (STATUS, [C.POINTER(shoal_network_desc), C.POINTER(C.c_void_p)]),
    "shoal_network_save_trace": (STATUS, [C.c_void_p, C.c_uint32, C.c_char_p]),
    "shoal_network_close": (None, [C.c_void_p]),
    "shoal_network_describe": (STATUS, [C.c_void_p, C.POINTER(shoal_network_info)]),
    "shoal_network_at": (STATUS, [C.c_void_p, C.c_uint32, C.c_uint32, C.POINTER(shoal_network_collective)]),
    "shoal_network_collectives": (C.c_uint32, [C.c_void_p, C.c_uint32]),
    "shoal_network_time": (C.c_double, [C.c_void_p, C.c_uint32, C.c_void_p]),
    "shoal_network_cost": (C.c_double, [C.c_void_p, C.c_void_p]),
    "shoal_network_schedule_at": (STATUS, [C.c_void_p, C.c_void_p, C.c_uint32, C.POINTER(shoal_network_schedule)]),
    "shoal_network_solve": (STATUS, [C.c_void_p, C.POINTER(shoal_network_question), C.POINTER(shoal_network_answer)]),
    "shoal_network_shapes_open": (STATUS, [C.POINTER(shoal_network_desc), C.POINTER(shoal_network_space), C.POINTER(C.c_void_p)]),
    "shoal_network_shapes_close": (None, [C.c_void_p]),
    "shoal_network_shapes_best": (STATUS, [C.c_void_p, C.POINTER(shoal_network_question), C.POINTER(shoal_network_shape), C.c_uint32, C.c_void_p, C.POINTER(shoal_network_choice)]),
    "shoal_partition_create": (STATUS, [C.POINTER(shoal_partition_desc), C.POINTER(C.c_void_p)]),
    "shoal_partition_destroy": (None, [C.c_void_p]),
    "shoal_partition_describe": (STATUS, [C.c_void_p, C.POINTER(shoal_partition_info)]),
    "shoal_partition_layer": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_partition_layer_info)]),
    "shoal_partition_level": (STATUS, [C.c_void_p, C.c_uint32, C.c_void_p]),
    "shoal_partition_time": (C.c_double, [C.c_void_p, C.c_double, C.c_double]),
    "shoal_partition_save": (STATUS, [C.c_void_p, C.c_char_p]),
    "shoal_partition_open": (STATUS, [C.c_char_p, C.POINTER(C.c_void_p)]),
    "shoal_partition_mode_name": (C.c_char_p, [C.c_size_t]),
    "shoal_partition_method_name": (C.c_char_p, [C.c_size_t]),
    "shoal_table_name": (C.c_char_p, [C.c_int]),
    "shoal_row_at": (C.c_bool, [C.c_int, C.c_size_t, C.POINTER(shoal_row)]),
    "shoal_row_trait": (C.c_char_p, [C.c_int, C.c_size_t, C.c_uint32]),
    "shoal_row_key_at": (C.c_bool, [C.c_int, C.c_size_t, C.c_uint32, C.POINTER(shoal_row_key)]),
    "shoal_run_open": (STATUS, [C.c_char_p, C.POINTER(C.c_void_p)]),
    "shoal_run_close": (None, [C.c_void_p]),
    "shoal_run_option": (C.c_char_p, [C.c_void_p, C.c_uint32, C.POINTER(C.c_char_p)]),
    "shoal_run_json": (C.c_char_p, [C.c_void_p]),
    "shoal_run_is_folder": (C.c_bool, [C.c_char_p]),
    "shoal_run_look_at": (STATUS, [C.c_char_p, C.c_bool, C.POINTER(C.c_void_p)]),
    "shoal_run_look_summary": (STATUS, [C.c_void_p, C.POINTER(shoal_run_summary)]),
    "shoal_run_look_checkpoint": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_run_checkpoint)]),
    "shoal_run_look_run": (C.c_void_p, [C.c_void_p]),
    "shoal_run_look_close": (None, [C.c_void_p]),
    "shoal_sync_create": (STATUS, [C.c_void_p, C.POINTER(shoal_sync_desc), C.POINTER(C.c_void_p)]),
    "shoal_sync_destroy": (None, [C.c_void_p]),
    "shoal_sync_ready": (STATUS, [C.c_void_p, C.c_size_t, C.c_size_t]),
    "shoal_sync_ready_rows": (STATUS, [C.c_void_p, C.c_size_t, C.c_size_t, C.c_void_p, C.c_size_t]),
    "shoal_sync_before_update": (STATUS, [C.c_void_p, C.POINTER(shoal_verdict)]),
    "shoal_sync_after_update": (STATUS, [C.c_void_p, C.POINTER(shoal_verdict)]),
    "shoal_sync_finish": (STATUS, [C.c_void_p]),
    "shoal_sync_set_sgd": (STATUS, [C.c_void_p, C.c_double, C.c_double]),
    "shoal_sync_last_stats": (STATUS, [C.c_void_p, C.POINTER(shoal_sync_stats)]),
    "shoal_sync_serve": (STATUS, [C.c_void_p]),
    "shoal_sync_servers": (STATUS, [C.c_char_p, C.c_void_p]),
    "shoal_sync_survives": (STATUS, [C.c_char_p, C.c_void_p]),
    "shoal_sim_create": (STATUS, [C.POINTER(shoal_sim_desc), C.POINTER(C.c_void_p)]),
    "shoal_sim_destroy": (None, [C.c_void_p]),
    "shoal_sim_chosen": (C.c_char_p, [C.c_void_p]),
    "shoal_sim_watch": (STATUS, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "shoal_sim_stop": (None, [C.c_void_p]),
    "shoal_sim_serve": (STATUS, [C.c_void_p, C.c_char_p]),
    "shoal_sim_keep": (STATUS, [C.c_void_p, C.POINTER(shoal_sim_files)]),
    "shoal_sim_run": (STATUS, [C.c_void_p]),
    "shoal_sim_results_get": (STATUS, [C.c_void_p, C.POINTER(shoal_sim_results)]),
    "shoal_sim_endpoint_get": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_sim_endpoint_results)]),
    "shoal_sim_waits": (C.c_void_p, [C.c_void_p, C.c_uint32]),
    "shoal_sim_curve": (C.POINTER(shoal_sim_point), [C.c_void_p, C.c_void_p]),
    "shoal_sim_params": (C.c_void_p, [C.c_void_p, C.c_uint32, C.c_void_p]),
    "shoal_sparse_describe": (STATUS, [C.c_char_p, C.c_size_t, C.c_uint32, C.c_uint32, C.POINTER(shoal_sparse_desc)]),
    "shoal_sparse_expect": (STATUS, [C.POINTER(shoal_sparse_desc), C.c_double, C.c_bool, C.POINTER(shoal_sparse_cost)]),
    "shoal_sparse_count": (STATUS, [C.POINTER(shoal_sparse_desc), C.c_void_p, C.c_void_p, C.c_void_p, C.POINTER(shoal_sparse_cost)]),
    "shoal_train_job": (None, [C.POINTER(shoal_train_desc), C.c_uint32, C.POINTER(shoal_job)]),
    "shoal_train_create": (STATUS, [C.c_void_p, C.POINTER(shoal_train_desc), C.POINTER(C.c_void_p)]),
    "shoal_train_destroy": (None, [C.c_void_p]),
    "shoal_admm_parse": (STATUS, [C.c_char_p, C.POINTER(shoal_admm)]),
    "shoal_gradients_open": (STATUS, [C.c_char_p, C.POINTER(C.c_void_p)]),
    "shoal_gradients_at": (C.c_void_p, [C.c_void_p, C.c_uint32, C.POINTER(C.c_char_p), C.c_void_p]),
    "shoal_gradients_close": (None, [C.c_void_p]),
    "shoal_train_step": (STATUS, [C.c_void_p, C.POINTER(shoal_train_progress)]),
    "shoal_train_ask_to_stop": (None, [C.c_void_p]),
    "shoal_train_reform": (STATUS, [C.c_void_p, C.POINTER(C.c_void_p), C.c_int64]),
    "shoal_train_model": (C.c_char_p, [C.c_void_p]),
    "shoal_train_choice": (C.c_bool, [C.c_void_p, C.c_uint32, C.POINTER(shoal_train_candidate)]),
    "shoal_train_codec_bound": (C.c_bool, [C.c_void_p, C.POINTER(shoal_train_codec_check)]),
    "shoal_train_codec_fell": (C.c_bool, [C.c_void_p, C.c_uint32, C.POINTER(shoal_train_codec_fall)]),
    "shoal_train_codec": (C.c_char_p, [C.c_void_p]),
    "shoal_train_in_virtual_time": (STATUS, [C.POINTER(shoal_train_desc), C.POINTER(shoal_sim_desc), C.POINTER(C.c_void_p)]),
    "shoal_train_serve": (STATUS, [C.c_void_p]),
    "shoal_train_count": (None, [C.c_void_p, C.POINTER(shoal_train_totals)]),
    "shoal_train_summarise": (STATUS, [C.c_void_p, C.POINTER(shoal_train_summary)]),
    "shoal_train_loss_of": (C.c_bool, [C.c_void_p, C.c_uint32, C.POINTER(shoal_train_loss)]),
    "shoal_train_trace_job": (STATUS, [C.c_char_p, C.c_double, C.c_int64, C.c_char_p, C.POINTER(shoal_train_traced)]),
    "shoal_train_rank_of": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_train_rank)]),
    "shoal_watch_ask": (STATUS, [C.c_char_p, C.c_int64, C.POINTER(C.c_void_p)]),
    "shoal_watch_all": (STATUS, [C.c_int64, C.POINTER(C.c_void_p)]),
    "shoal_watch_next": (C.c_void_p, [C.c_void_p]),
    "shoal_watch_job": (None, [C.c_void_p, C.POINTER(C.c_char_p), C.c_void_p, C.c_void_p]),
    "shoal_watch_ranks": (C.c_uint32, [C.c_void_p]),
    "shoal_watch_rank": (STATUS, [C.c_void_p, C.c_uint32, C.POINTER(shoal_watch_rank_state)]),
    "shoal_watch_notes": (C.c_char_p, [C.c_void_p]),
    "shoal_watch_close": (None, [C.c_void_p]),
}
