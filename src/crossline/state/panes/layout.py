"""The one declaration of the pane kernel's memory: a table of words, a slot for each key, blocks of a heap.

What is declared how is reported in ``state/memory/declarations.py``. Compiled functions take ``h``, the address of the
words. A slot holds where the key's records and panes are, its cursors, and what its lines remember. Records (sorted by
clock, then ingest order, side by side in one block), keys and sketches are blocks of the heap; panes stand in chunks of
a few, linked both ways, so that a key with few of them is small and one with many is never moved.
"""

from __future__ import annotations

from crossline.state.memory.declarations import F64, I32, I64, U8, U32, U64, Item, Row, Table
from crossline.state.memory.layout import BYTE as BYTE  # noqa: PLC0414 - as windows have them
from crossline.state.memory.layout import EIGHT_BYTES as EIGHT_BYTES  # noqa: PLC0414 - as above
from crossline.state.memory.layout import LIMB as LIMB  # noqa: PLC0414 - as above
from crossline.state.windows.emission.words import NONE_MS as NONE_MS  # noqa: PLC0414 - as above

TABLE = Table()
_count, _number, _array = TABLE.count, TABLE.number, TABLE.array

# Counts that the kernel moves on.
N_SLOTS = _count("N_SLOTS", "slots there are, those that are free included", carried=True)
N_FREE = _count("N_FREE", "of them free", carried=True)
FREE_SLOT = _count("FREE_SLOT", "the first free slot, and -1 for none", carried=True)
N_RECORDS = _count("N_RECORDS", "records held", carried=True)
N_PANES = _count("N_PANES", "panes held", carried=True)
N_IDS = _count("N_IDS", "places of the table of ids that are not free", carried=True)
OLD_MOVED = _count("OLD_MOVED", "blocks of OLD_ID_TABLE whose ids stand in ID_TABLE", carried=True)
HEAP_TOP = _count("HEAP_TOP", "units of the heap that were ever given out", carried=True)
HEAP_NEED = _count("HEAP_NEED", "units that the next step may ask for, where there are too few")
SWEPT = _count("SWEPT", "the slot that the next sweep begins with", carried=True)
N_LARGEST = _count("N_LARGEST", "units of the largest sketch there was", carried=True)
N_RETAINED = _count("N_RETAINED", "rows of the batch that became records")
N_HITS = _count("N_HITS", "hits noted")
N_EMITTED = _count("N_EMITTED", "emissions noted of lines with a cooldown")

# The state.
SLOTS = TABLE.pool("SLOTS", "rows of slots")
SLOT_BYTES = _number("SLOT_BYTES", "bytes of a slot's row", "plan")
HEAP = TABLE.pool("HEAP", "blocks", carried=True)
HEAP_ROOM = _number("HEAP_ROOM", "units that the heap has room for", "state", carried=True)
KEY_TABLE = TABLE.table("KEY_TABLE", "keys to slots (see ``key_table``)", carried=True)
KEY_PLACES = _number("KEY_PLACES", "places of it", "state", carried=True)
KEY_FORMER = _number("KEY_FORMER", "while it grows, places that it had before; else KEY_PLACES", "state", carried=True)
KEY_SPLIT = _number("KEY_SPLIT", "first places from this on are by KEY_PLACES", "state", carried=True)
ID_TABLE = TABLE.table("ID_TABLE", "blocks of ids and their clocks (see ``ids``)", carried=True)
ID_BLOCKS = _number("ID_BLOCKS", "blocks of it", "state", carried=True)
OLD_ID_TABLE = TABLE.table("OLD_ID_TABLE", "while ids move to a new table: the one before", carried=True)
OLD_BLOCKS = _number("OLD_BLOCKS", "blocks of it; 0: there is none", "state", carried=True)
FREE = _array("FREE", I64, "block sizes", "the first free block of each size, 0 for none", "state")
SIZES = _array("SIZES", I64, "block sizes", "the sizes of blocks, in units", "plan")
FOLD_TO = _number("FOLD_TO", "records with a clock at or before this are settled: they may go into panes", "state")
DROP_TO = _number("DROP_TO", "panes that end at or before this are in no window any more", "state")

# What the plan is.
RESOLUTION = _number("RESOLUTION", "the length of a pane, in ms", "plan")
COLUMNS = _number("COLUMNS", "columns of values", "plan")
BITS_WORDS = _number("BITS_WORDS", "words that hold a bit for each entry; 0 where all records are in the one", "plan")
ROW_BYTES = _number("ROW_BYTES", "bytes of a record's row: its clock, its values, its bits", "plan")
PANE_BYTES = _number("PANE_BYTES", "bytes of a pane: its number, then its parts", "plan")
CHUNK_PANES = _number("CHUNK_PANES", "panes of a chunk", "plan")
CHUNK_CLASS = _number("CHUNK_CLASS", "which size of block a chunk is", "plan")
STEP_UNITS = _number("STEP_UNITS", "units that a step may allocate, without sketches, records and keys", "plan")
PARTS = _number("PARTS", "parts of a pane", "plan")
PART_KIND = _array("PART_KIND", I64, "PARTS", "what the part is", "plan")
PART_FILTER = _array("PART_FILTER", I64, "PARTS", "the filter of its records", "plan")
PART_COL = _array("PART_COL", I64, "PARTS", "of which column, or of a streak which other entry", "plan")
PART_COUNT = _array("PART_COUNT", I64, "PARTS", "where a pane has the count of its filter", "plan")
PART_AT = _array("PART_AT", I64, "PARTS", "where in a pane it begins", "plan")
SKETCHES = _number("SKETCHES", "parts that are sketches or may become wide", "plan")
N_WINDOWS = _number("N_WINDOWS", "windows of a key", "plan")
WINDOW_FILTER = _array("WINDOW_FILTER", I64, "N_WINDOWS", "the window's filter", "plan")
COUNT_PART = _array("COUNT_PART", I64, "N_WINDOWS", "where a pane has the count of its filter", "plan")
WINDOW = _array("WINDOW", I64, "N_WINDOWS", "the window's length in ms", "plan")
DELAY = _array("DELAY", I64, "N_WINDOWS", "how long before the record it ends", "plan")
EXACT = _array("EXACT", I64, "N_WINDOWS", "-1 where its far edge is a pane's, else 0 or, open at that end, 1", "plan")
RIGHT_OPEN = _array("RIGHT_OPEN", I64, "N_WINDOWS", "whether records of the same clock are out of it", "plan")
INCLUDE = _array("INCLUDE", I64, "N_WINDOWS", "whether the record itself is in it", "plan")
ACCS = _number("ACCS", "running aggregates", "plan")
ACC_AT = _array("ACC_AT", I64, "N_WINDOWS", "where the running aggregates of a window begin, and end", "plan")
ACC_KIND = _array("ACC_KIND", I64, "ACCS", "what it is", "plan")
ACC_PART = _array("ACC_PART", I64, "ACCS", "of which part", "plan")
AGGREGATE_AT = _array("AGGREGATE_AT", I64, "N_WINDOWS", "where the aggregates of a window begin, and end", "plan")
AGGREGATE_KIND = _array("AGGREGATE_KIND", I64, "aggregates", "kind of the figure", "plan")
AGGREGATE_ACC = _array("AGGREGATE_ACC", I64, "aggregates", "its running aggregate; -1 where it has none", "plan")
AGGREGATE_ACC_2 = _array("AGGREGATE_ACC_2", I64, "aggregates", "that of its second part, or -1", "plan")
AGGREGATE_PART = _array("AGGREGATE_PART", I64, "aggregates", "its part; -1 where it has none", "plan")
AGGREGATE_PART_2 = _array("AGGREGATE_PART_2", I64, "aggregates", "its second part, or -1", "plan")
AGGREGATE_FIGURE = _array("AGGREGATE_FIGURE", I64, "aggregates", "number among the output figures", "plan")
AGGREGATE_RANK = _array("AGGREGATE_RANK", I64, "aggregates", "of a quantile, which, in millionths", "plan")
CLASSES = _number("CLASSES", "classes: lines that judge the same records share one", "plan")
JUDGING = _number("JUDGING", "lines and formulas", "plan")
LINES = _number("LINES", "lines; formulas come after them", "plan")
LINE_FIGURE = _array("LINE_FIGURE", I64, "LINES", "number of its output figure", "plan")
LINE_REAL = _array("LINE_REAL", I64, "LINES", "whether that is a float", "plan")
NEGATED = _array("NEGATED", I64, "LINES", "whether its bounds, both included, are of what does not satisfy", "plan")
LOW_I = _array("LOW_I", I64, "LINES", "least integer within its bounds", "plan")
HIGH_I = _array("HIGH_I", I64, "LINES", "greatest", "plan")
LOW_REST = _array("LOW_REST", I64, "LINES", "least integer of any size, modulo 2^64", "plan")
LOW_UP = _array("LOW_UP", I64, "LINES", "and the multiples of 2^64 besides", "plan")
HIGH_REST = _array("HIGH_REST", I64, "LINES", "greatest, modulo 2^64", "plan")
HIGH_UP = _array("HIGH_UP", I64, "LINES", "and the multiples of 2^64 besides", "plan")
LOW_F = _array("LOW_F", F64, "LINES", "least float within its bounds", "plan")
HIGH_F = _array("HIGH_F", F64, "LINES", "greatest", "plan")
LINE_WINDOW = _array("LINE_WINDOW", I64, "JUDGING", "the window that its hits show", "plan")
LINE_CLASS = _array("LINE_CLASS", I64, "JUDGING", "the line's class", "plan")
EVERY = _array("EVERY", I64, "JUDGING", "whether it emits at every record that satisfies it", "plan")
REARM = _array("REARM", I64, "JUDGING", "how far back the record judged before counts, in ms", "plan")
LINE_EXACT = _array("LINE_EXACT", I64, "JUDGING", "as EXACT of its window", "plan")
COOLDOWN = _array("COOLDOWN", I64, "JUDGING", "its cooldown, in ms", "plan")
COOLDOWN_COL = _array("COOLDOWN_COL", I64, "JUDGING", "its number among those with a cooldown, or -1", "plan")
COOLING = _number("COOLING", "lines with a cooldown", "plan")
LINE_BYTES = _number("LINE_BYTES", "bytes that hold a bit for each line", "plan")
SLOT_BORN = _array("SLOT_BORN", U8, "SLOT_BYTES", "the row of a slot as it is born", "plan")

# Scratch.
WIDE = _array("WIDE", I64, "limbs", "a wide number, see state/arithmetic/superaccumulator.py", "scratch")
CODES = _array("CODES", U32, "CODE_PLACES", "a set of codes of a sketch", "scratch")
TOUCHED = _array("TOUCHED", I32, "CODES_MAX + 1", "places of the set that are in use", "scratch")
REGISTERS = _array("REGISTERS", U8, "registers", "a sketch of many values", "scratch")
BUCKETS = _array(
    "BUCKETS", I64, "buckets", "how many values there are in a bucket, all 0 but while it is read", "scratch"
)
BUCKET_WORDS = _array("BUCKET_WORDS", U32, "words", "a bit for each bucket that has values, and so on", "scratch")
BUCKET_GROUPS = _array("BUCKET_GROUPS", U32, "groups", "a bit for each word of these that is not 0", "scratch")
BUCKET_TOPS = _array("BUCKET_TOPS", U32, "tops", "a bit for each group that is not 0", "scratch")
FEW = _array("FEW", I64, "FEW_MAX", "few items of sketches, in order: a bucket, and below it its count", "scratch")
FIGURE = _array("FIGURE", I64, "3", "a figure (see below)", "scratch")
A_FIGURE = Item("a figure", array=FIGURE)
WHOLE = A_FIGURE.field("WHOLE", I64, "its integer")
WHOLE_UP = A_FIGURE.field("WHOLE_UP", I64, "what that has beyond 64 bits")
REAL = A_FIGURE.field("REAL", F64, "its float")

KEYS_MOVED = _array("KEYS_MOVED", I64, "keys", "what was taken out of KEY_TABLE, while it grows", "scratch")

# The batch.
ROWS = _number("ROWS", "rows", "batch")
BATCH_KEYS = _number("BATCH_KEYS", "keys", "batch")
SINCE = _number("SINCE", "how far behind its ingest time the clock of a row's first copy may be, in ms", "batch")
CLOCK_MS = _array("CLOCK_MS", I64, "ROWS", "clocks", "batch", given=True)
INGEST_MS = _array("INGEST_MS", I64, "ROWS", "ingest times", "batch", given=True)
KEY_INDEX = _array("KEY_INDEX", I32, "ROWS", "number of the row's key", "batch")
KEY_BYTES = _array("KEY_BYTES", U8, "bytes", "keys, end to end", "batch")
KEY_OFFSETS = _array("KEY_OFFSETS", I64, "BATCH_KEYS + 1", "where they begin and end", "batch", given=True)
KEY_HASH = _array("KEY_HASH", U64, "BATCH_KEYS", "their hashes", "batch", given=True)
KEY_SLOT = _array("KEY_SLOT", I32, "BATCH_KEYS", "their slots, -1 where there is none yet", "batch")
ID_HASH = _array("ID_HASH", U64, "ROWS", "hashes of ids under the process's secret", "batch", given=True)
VALUES = _array("VALUES", I64, "ROWS * COLUMNS", "values, as 64 bits", "batch", given=True)
BITS = _array("BITS", I64, "ROWS * words", "bits of entries, at least one word a row", "batch")
BITS_EACH = _number("BITS_EACH", "words of bits of a row", "batch")
ACTIVE = _array("ACTIVE", U8, "ROWS * CLASSES", "which classes of lines judge the row", "batch")
DUPLICATE = _array("DUPLICATE", U8, "ROWS", "whether it is a duplicate", "batch")
RETAINED = _array("RETAINED", I32, "ROWS", "rows that became records", "batch")
ROW_SLOT = _array("ROW_SLOT", I32, "ROWS", "the row's slot, -1 where it is no record", "batch")
ROW_KEPT = _array("ROW_KEPT", I32, "ROWS", "its number among those retained", "batch")
ROW_FIGURES = _number("ROW_FIGURES", "output figures of a row", "batch")
FIGURE_I = _array("FIGURE_I", I64, "rows of a piece * ROW_FIGURES", "figures that are integers", "batch")
FIGURE_UP = _array(
    "FIGURE_UP", I64, "rows of a piece * ROW_FIGURES", "their part beyond 64 bits, in units of 2^64", "batch"
)
FIGURE_F = _array("FIGURE_F", F64, "rows of a piece * ROW_FIGURES", "figures that are floats", "batch")
FIGURE_DEFINED = _array("FIGURE_DEFINED", U8, "rows of a piece * ROW_FIGURES", "whether there is one", "batch")
COUNTS = _array("COUNTS", I64, "rows of a piece * N_WINDOWS", "records in the windows", "batch")
PIECE_FROM = _number("PIECE_FROM", "the row that the piece begins with", "batch")
PIECE_END = _number("PIECE_END", "and the one it ends before", "batch")
AT_ONCE = _number("AT_ONCE", "whether a row's lines are judged with it: then the piece is that row", "batch")
HOLDS = _array("HOLDS", U8, "rows of a piece * formulas", "which formulas hold at the row", "batch")
OUT_ROOM = _number("OUT_ROOM", "hits that there is room for", "batch")
OUT_LINE = _array("OUT_LINE", I32, "OUT_ROOM", "line of a hit", "batch")
OUT_ROW = _array("OUT_ROW", I32, "OUT_ROOM", "row of a hit", "batch")
OUT_VALUE_I = _array("OUT_VALUE_I", I64, "OUT_ROOM", "its figure, if an integer", "batch")
OUT_VALUE_UP = _array("OUT_VALUE_UP", I64, "OUT_ROOM", "what that has beyond 64 bits", "batch")
OUT_VALUE_F = _array("OUT_VALUE_F", F64, "OUT_ROOM", "its figure, if a float", "batch")
OUT_COUNT = _array("OUT_COUNT", I64, "OUT_ROOM", "records in its window", "batch")
OUT_EMITTED = _array("OUT_EMITTED", I64, "OUT_ROOM", "an emission: the line, and the number of the row", "batch")
AN_EMISSION = Item("emission of a line with a cooldown", array=OUT_EMITTED)
EMITTED_LINE = AN_EMISSION.field("EMITTED_LINE", I32, "the line")
EMITTED_KEPT = AN_EMISSION.field("EMITTED_KEPT", I32, "the number of the row among those retained")
ROW_SAT = _array("ROW_SAT", U8, "ROWS * LINE_BYTES", "which lines were satisfied, of rows retained", "batch")
LINE_MASK = _array("LINE_MASK", U8, "LINE_BYTES", "of what is loaded, the lines that it speaks of", "batch")
CLASS_LINES = _array("CLASS_LINES", U8, "CLASSES * LINE_BYTES", "the lines of each class", "batch")

# A slot.
KEYED = Row("a slot", 64, SLOTS, SLOT_BYTES)
OWN_HASH = KEYED.field("OWN_HASH", U64, "hash of its key", carried=True)
OWN_KEY = KEYED.field("OWN_KEY", U32, "block of its key; 0: the slot is free", carried=True)
OWN_LENGTH = KEYED.field("OWN_LENGTH", U32, "bytes of its key; of a free slot NEXT_FREE_SLOT", carried=True)
RAW = KEYED.field("RAW", U32, "block of its records, 0 for none", carried=True)
RAW_CLASS = KEYED.field("RAW_CLASS", U32, "which size of block", carried=True)
RAW_HEAD = KEYED.field("RAW_HEAD", U32, "rows that are left behind in it", carried=True)
RAW_N = KEYED.field("RAW_N", U32, "records", carried=True)
BASE = KEYED.field("BASE", I64, "the number that panes count theirs from", carried=True)
FIRST_AT = KEYED.field("FIRST_AT", I64, "place of its first pane", carried=True)
END_AT = KEYED.field("END_AT", I64, "place after its last pane; 0 where it has no chunk", carried=True)
_free_slot = Item("a slot that is free")
_free_slot.field("FREE_HASH", U64, "that of the key that went")
_free_slot.field("FREE_KEY", U32, "0")
NEXT_FREE_SLOT = _free_slot.field("NEXT_FREE_SLOT", I32, "the next slot that is free, -1 for none")
A_WINDOW = Item("windows")
LOW = A_WINDOW.field("LOW", I64, "the first clock in the window")
P_FIRST = A_WINDOW.field("P_FIRST", I64, "place of its first pane", born=-1)
P_END = A_WINDOW.field("P_END", I64, "place after its last; of a window without delay, END_AT stands for it")
R_FIRST = A_WINDOW.field("R_FIRST", I32, "number of its first record")
R_END = A_WINDOW.field("R_END", I32, "number after its last; -1: the window is new", born=-1)
WINDOW_AT = KEYED.first_part("WINDOW", A_WINDOW, N_WINDOWS)
AN_ACC = Item("running aggregates, two words each")
ACC = AN_ACC.field("ACC", I64, "low word, high part of a pair, or value")
ACC_UP = AN_ACC.field("ACC_UP", I64, "upper word, rest of a pair, or whether the value is known")
ACCS_AT = KEYED.part(TABLE, "ACCS", AN_ACC, ACCS)
A_JUDGED = Item("clocks of the last record judged by a class")
JUDGED = A_JUDGED.field("JUDGED", I64, "clock in ms", born=NONE_MS)
JUDGED_AT = KEYED.part(TABLE, "JUDGED", A_JUDGED, CLASSES)
AN_EMITTED = Item("clocks of the last emission of lines with a cooldown")
EMITTED = AN_EMITTED.field("EMITTED", I64, "clock in ms", born=NONE_MS)
EMITTED_AT = KEYED.part(TABLE, "EMITTED", AN_EMITTED, COOLING)
SATISFIED = Item("a bit for each line that was satisfied last")
SAT = SATISFIED.field("SAT", U8, "8 lines")
SAT_AT = KEYED.part(TABLE, "SAT", SATISFIED, LINE_BYTES)

# What a running aggregate, or a part of a pane, is as a sum of floats.
A_PAIR = Item("a sum of floats")
PAIR = A_PAIR.field("PAIR", F64, "the sum, rounded; NaN: it is not exact, or wide")
PAIR_REST = A_PAIR.field("PAIR_REST", F64, "what rounding lost")
WIDE_PAIR = Item("a sum of floats that a pair does not hold")
PAIR_BITS = WIDE_PAIR.field("PAIR_BITS", I64, "the bits of PAIR")
WIDE_BLOCK = WIDE_PAIR.field("WIDE_BLOCK", I64, "the block of a wide number; before, the bits of PAIR_REST")

# A record: its clock, then its values, then its bits.
A_RECORD = Item("a record")
RECORD_CLOCK = A_RECORD.field("RECORD_CLOCK", I64, "clock in ms")
A_VALUE = Item("a value of a record, or of a part that keeps one")
WHOLE_VALUE = A_VALUE.field("WHOLE_VALUE", I64, "integer, code, clock or bits of a float")
A_REAL_VALUE = Item("a value that is a float")
REAL_VALUE = A_REAL_VALUE.field("REAL_VALUE", F64, "the float")
SOME_BITS = Item("64 bits of entries")
FILTER_BITS = SOME_BITS.field("FILTER_BITS", I64, "bit e & 63: whether the record passes filter e")

# A pane: its number, then its parts. It stands in a chunk.
A_CHUNK = Item("a chunk of panes")
CHUNK_BEFORE = A_CHUNK.field("CHUNK_BEFORE", U32, "block of the chunk before, 0 for none")
CHUNK_AFTER = A_CHUNK.field("CHUNK_AFTER", U32, "block of the chunk after, 0 for none")
A_PANE = Item("a pane")
PANE_NUMBER = A_PANE.field("PANE_NUMBER", I32, "its number, counted from BASE")
A_COUNT = Item("a part that counts records, or is a streak of them")
COUNTED = A_COUNT.field("COUNTED", I32, "how many")
A_SUM = Item("a part that is a sum of integers")
SUM_LOW = A_SUM.field("SUM_LOW", I64, "what int64 holds of it")
SUM_UP = A_SUM.field("SUM_UP", I32, "how many times 2^64 is to be added")
SQUARES = Item("a part of sums of values and of their squares")
SUM_OF_SQUARES = (
    SQUARES.field("VALUES", F64, "sum of values"),
    SQUARES.field("VALUES_REST", F64, "what rounding lost"),
    SQUARES.field("SQUARES", F64, "sum of their squares"),
    SQUARES.field("SQUARES_REST", F64, "what rounding lost"),
)[2]
A_SKETCH = Item("a part that is a sketch")
SKETCH = A_SKETCH.field("SKETCH", U32, "its block, 0 for none yet")

# Blocks of the heap that are no keys, records and chunks.
A_FREE_BLOCK = Item("a block that is free")
NEXT_FREE = A_FREE_BLOCK.field("NEXT_FREE", I64, "the next of its size that is free, 0 for none")
SKETCH_HEAD = Item("a sketch, which its items follow")
SKETCH_SIZE = SKETCH_HEAD.field("SKETCH_SIZE", I32, "which size of block it is")
SKETCH_ITEMS = SKETCH_HEAD.field("SKETCH_ITEMS", I32, "how many items it has; -1: they are registers")
CODE = Item("item of a sketch of few values").field("CODE", U32, "the code of a value")
REGISTER = Item("item of a sketch of many values").field("REGISTER", U8, "zeros that were counted")
A_BUCKET = Item("item of a sketch of quantiles, or of how often values come")
BUCKET = A_BUCKET.field("BUCKET", I32, "which bucket")
BUCKET_COUNT = A_BUCKET.field("BUCKET_COUNT", I32, "how many values it has")

# Tables.
A_PLACE = Item("place of KEY_TABLE", array=KEY_TABLE)
SLOT_THERE = A_PLACE.field("SLOT_THERE", I64, "upper half of the key's hash, and its slot + 1; 0: the place is free")
ID_BLOCK = Item("block of ID_TABLE: of each place the hash, then of each the clock")
ID_THERE, _, _, _, CLOCK_THERE, _, _, LAST_CLOCK = (
    ID_BLOCK.field(name, kind, what)
    for kind, what, names in (
        (U64, "hash of an id under its slot", ("ID_THERE", "ID_1", "ID_2", "ID_3")),
        (
            I64,
            "its clock in ms, with its sign turned; 0: the place is free",
            ("CLOCK_THERE", "CLOCK_1", "CLOCK_2", "LAST_CLOCK"),
        ),
    )
    for name in names
)

WORDS = len(TABLE.words) + 4
CARRIED = [word for word in TABLE.words if word.carried]
OF_BATCH = TABLE.numbers(life="batch", role="array")
UNIT = 8  # bytes of the heap
