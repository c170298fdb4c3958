/* Files of torch.save changed by their structure: opcodes of the pickle, entries of the archive, both with right lengths around. */
#include "tests/fuzz/fuzz.h"
#include "tests/torch.h"

#include <stdlib.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* Opcodes with what they take, and pieces of what torch.save writes. */
#define WORD(bytes)                                                                                          \
    { bytes, sizeof(bytes) - 1 }
static const struct {
    const char *bytes;
    size_t n;
} words[] = {WORD("("),
             WORD("t"),
             WORD("u"),
             WORD("s"),
             WORD("e"),
             WORD("a"),
             WORD("b"),
             WORD("R"),
             WORD("Q"),
             WORD("N"),
             WORD("."),
             WORD("}"),
             WORD("]"),
             WORD(")"),
             WORD("\x85"),
             WORD("\x86"),
             WORD("\x87"),
             WORD("\x88"),
             WORD("\x94"),
             WORD("\x93"),
             WORD("h\0"),
             WORD("h\1"),
             WORD("q\0"),
             WORD("q\1"),
             WORD("j\2\0\0\0"),
             WORD("r\2\0\0\0"),
             WORD("K\0"),
             WORD("K\4"),
             WORD("M\0\1"),
             WORD("\x8a\0"),
             WORD("\x8a\1\xff"),
             WORD("\x80\4"),
             WORD("\x8c\1a"),
             WORD("X\1\0\0\0a"),
             WORD("X\1\0\0\0000"),
             WORD("X\7\0\0\0storage"),
             WORD("ctorch\nFloatStorage\n"),
             WORD("ctorch\nHalfStorage\n"),
             WORD("ctorch\nByteStorage\n"),
             WORD("ctorch._utils\n_rebuild_tensor_v2\n"),
             WORD("ctorch._utils\n_rebuild_parameter\n"),
             WORD("ccollections\nOrderedDict\n)R"),
             WORD("cos\nsystem\n"),
             WORD("\x95\4\0\0\0\0\0\0\0")};

/* Some opcodes put in, taken out or said twice, or a number changed. */
static size_t change_program(unsigned char *bytes, size_t n, size_t room) {
    size_t at = random_below(n + 1), choice = random_below(6), length = random_below(24);
    if (length > n - at) length = n - at;
    if (choice == 0 || n + 32 > room) return LLVMFuzzerMutate(bytes, n, room);
    if (choice == 1) { /* a number where there is one */
        uint64_t number = odd_number();
        while (at < n && !strchr("JK", bytes[at])) at++;
        if (at + 5 <= n) memcpy(bytes + at + 1, &number, bytes[at] == 'J' ? 4 : 1);
        return n;
    }
    if (choice == 2) { /* out */
        memmove(bytes + at, bytes + at + length, n - at - length);
        return n - length;
    }
    unsigned char piece[64];
    size_t word = random_below(COUNT(words)), n_piece = choice == 3 ? length : words[word].n;
    memcpy(piece, choice == 3 ? bytes + at : (const unsigned char *)words[word].bytes, n_piece);
    if (n + n_piece > room) return n;
    at = random_below(n + 1);
    memmove(bytes + at + n_piece, bytes + at, n - at);
    memcpy(bytes + at, piece, n_piece);
    return n + n_piece;
}

typedef struct Entry {
    char name[64];
    size_t begin, n;
} Entry;

/* The entries of an archive that archive_end closed; 0 if it is none, or damaged. */
static size_t take_apart(const unsigned char *bytes, size_t n, Entry entries[ARCHIVE_ENTRIES]) {
    size_t n_entries = 0;
    for (size_t at = 0; at + 46 <= n && n_entries < ARCHIVE_ENTRIES; at++) {
        uint32_t size, begin;
        uint16_t n_name, n_here, n_extra;
        if (memcmp(bytes + at, "PK\1\2", 4) != 0) continue;
        memcpy(&size, bytes + at + 24, 4), memcpy(&begin, bytes + at + 42, 4),
            memcpy(&n_name, bytes + at + 28, 2);
        if (size == UINT32_MAX && at + 46 + n_name + 28 <= n) { /* zip64 */
            memcpy(&size, bytes + at + 46 + n_name + 4, 4);
            memcpy(&begin, bytes + at + 46 + n_name + 20, 4);
        }
        if (n_name >= sizeof entries->name || at + 46 + n_name > n || begin > n || n - begin < 30) return 0;
        memcpy(&n_here, bytes + begin + 26, 2), memcpy(&n_extra, bytes + begin + 28, 2);
        size_t data = begin + 30 + n_here + n_extra;
        if (data > n || size > n - data) return 0;
        Entry *entry = &entries[n_entries++];
        snprintf(entry->name, sizeof entry->name, "%.*s", (int)n_name, (const char *)bytes + at + 46);
        entry->begin = data, entry->n = size;
    }
    return n_entries;
}

size_t mutate_torch(unsigned char *bytes, size_t n, size_t room) {
    static Archive archive;
    static unsigned char changed[1 << 15];
    Entry entries[ARCHIVE_ENTRIES];
    size_t n_entries = random_below(8) ? take_apart(bytes, n, entries) : 0;
    if (n_entries == 0) return LLVMFuzzerMutate(bytes, n, room);
    size_t odd = random_below(n_entries), choice = random_below(40); /* one entry gets something else */
    archive.n = archive.n_entries = 0;
    for (size_t i = 0; i < n_entries; i++) {
        const unsigned char *data = bytes + entries[i].begin;
        size_t n_data = entries[i].n, shift = i == odd && choice == 0 ? random_below(64) : 0;
        if (strstr(entries[i].name, "data.pkl") && n_data < sizeof changed / 2 && choice > 4) {
            memcpy(changed, data, n_data);
            for (size_t times = 1 + random_below(3); times > 0; times--)
                n_data = change_program(changed, n_data, sizeof changed / 2);
            data = changed;
        }
        if (i == odd && choice == 1) n_data = random_below(n_data + 1);
        if (i == odd && choice == 2) continue;
        archive_add(&archive, i == odd && choice == 3 ? entries[0].name : entries[i].name, data, n_data,
                    shift);
        if (i == odd && choice == 4) archive.entries[archive.n_entries - 1].n = (uint32_t)odd_number();
    }
    archive_end(&archive, random_below(4) == 0);
    if (archive.n > room) return n;
    memcpy(bytes, archive.bytes, archive.n);
    return archive.n;
}
