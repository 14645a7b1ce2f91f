// SPDX-License-Identifier: Apache-2.0
// The engine as a network card: between the TAP device that a host sees and one that is its link.
//
//   nic_link HOST-NAMESPACE HOST-DEVICE LINK-DEVICE [--soft] [--faithful] [--bound=10]
//
// Frames from the host go through the engine's sending side to the link, frames from the link
// through its receiving side to the host. Beside the verilated engine runs the software one, and
// each frame must be the one that it makes; with --soft there is only the latter. Prints its
// devices' name when they are there, and what it counted when SIGTERM comes.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <memory>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "nic.h"

namespace {

volatile sig_atomic_t ended;
void on_end(int)
{
    ended = 1;
}

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "nic_link: %s: %s\n", what, strerror(errno));
    exit(1);
}

int open_tap(const char *name)
{
    ifreq request = {};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)
        fail(name);
    return fd;
}

// One direction as counted.
struct Way {
    int from, to;
    uint64_t frames = 0, out = 0, changed = 0, before = 0, after = 0, lost = 0, differ = 0;
    uint64_t bad_sums = 0, refused = 0;
    std::deque<Frame> want; // what the software engine makes of what is inside

    bool inside() const
    {
        return frames > out + lost;
    }

    void leave(const Frame &f, const NicSettings &set)
    {
        out++;
        if (is_marked(f, set.tos) && (ip_sum(f) != 0xffff || tcp_sum(f) != 0xffff))
            bad_sums++;
        refused += write(to, f.data(), f.size()) != (ssize_t)f.size();
    }

    void print(const char *name) const
    {
        printf("\"%s\": {\"in\": %llu, \"out\": %llu, \"changed\": %llu, \"bytes_before\": %llu, "
               "\"bytes_after\": %llu, \"lost\": %llu, \"differ\": %llu, \"bad_sums\": %llu, "
               "\"refused\": %llu}",
               name, (unsigned long long)frames, (unsigned long long)out,
               (unsigned long long)changed, (unsigned long long)before, (unsigned long long)after,
               (unsigned long long)lost, (unsigned long long)differ, (unsigned long long)bad_sums,
               (unsigned long long)refused);
    }
};

struct Link {
    std::unique_ptr<Nic> nic; // none: software alone
    SoftNic soft;
    Way tx, rx;
    uint64_t moved_at = 0;

    // A frame of a device, if there is one.
    bool take(Way *way, NicPort *port)
    {
        Frame f(65536);
        ssize_t got = read(way->from, f.data(), f.size());
        if (got <= 0)
            return false;
        f.resize((size_t)got);
        way->frames++;
        Frame want = way == &tx ? soft.code(f) : soft.decode(f);
        if (want.empty()) {
            way->lost++;
        } else {
            way->changed += want != f;
            way->before += f.size();
            way->after += want.size();
        }
        if (nic == nullptr && !want.empty())
            way->leave(want, soft.set);
        if (nic == nullptr)
            return true;
        if (!want.empty())
            way->want.push_back(want);
        port->put(f);
        return true;
    }

    void give(Way *way, NicPort *port)
    {
        for (; !port->got.empty(); port->got.pop_front()) {
            const Frame &f = port->got.front();
            if (way->want.empty() || f != way->want.front())
                way->differ++;
            if (!way->want.empty())
                way->want.pop_front();
            way->leave(f, soft.set);
            moved_at = nic->cycles;
        }
    }

    bool take_both()
    {
        bool some = false;
        NicPort *t = nic ? &nic->tx : nullptr, *r = nic ? &nic->rx : nullptr;
        for (int i = 0; i < 16; i++) {
            bool here = (t == nullptr || t->in.queue.size() < 200) && take(&tx, t);
            here |= (r == nullptr || r->in.queue.size() < 200) && take(&rx, r);
            some |= here;
            if (!here)
                break;
        }
        if (some && nic)
            moved_at = nic->cycles;
        return some;
    }

    void run()
    {
        while (!ended) {
            pollfd fds[] = {{tx.from, POLLIN, 0}, {rx.from, POLLIN, 0}};
            if (!take_both() && !(nic && (tx.inside() || rx.inside())))
                poll(fds, 2, 1000);
            // An engine that gives nothing for so long will not: the frame counts as missing.
            for (int i = 0; nic && i < 256 && (tx.inside() || rx.inside()); i++) {
                nic->cycle();
                give(&tx, &nic->tx);
                give(&rx, &nic->rx);
                if (nic->cycles > moved_at + 20000)
                    give_up();
            }
        }
    }

    void give_up()
    {
        for (Way *way : {&tx, &rx}) {
            way->differ += way->want.size();
            way->lost += way->frames - way->out - way->lost;
            way->want.clear();
        }
    }

    void print()
    {
        printf("{");
        tx.print("tx");
        printf(", ");
        rx.print("rx");
        if (nic) {
            printf(
                ", \"cycles\": %llu, \"coded\": %u, \"decoded\": %u, \"exact\": %u, \"flows\": [",
                (unsigned long long)nic->cycles, nic->read(0x24), nic->read(0x34), nic->read(0x28));
            const char *comma = "";
            for (uint32_t flow = 0; flow < NIC_FLOWS; flow++, comma = ", ")
                printf("%s[%u, %u, %u, %u, %u, %u]", comma, nic->read(0x410 + 64 * flow),
                       nic->read(0x414 + 64 * flow), nic->read(0x418 + 64 * flow),
                       nic->read(0x41c + 64 * flow), nic->read(0x420 + 64 * flow),
                       nic->read(0x424 + 64 * flow));
            printf("]");
        }
        printf("}\n");
    }
};

} // namespace

int main(int argc, char **argv)
{
    Link link;
    bool rtl = true;
    for (int i = 4; i < argc; i++) {
        rtl = rtl && strcmp(argv[i], "--soft") != 0;
        if (strcmp(argv[i], "--faithful") == 0)
            link.soft.set.strict = 0;
        if (strncmp(argv[i], "--bound=", 8) == 0)
            link.soft.set.k = (uint32_t)atoi(argv[i] + 8);
    }
    if (argc < 4)
        return 2;
    signal(SIGTERM, on_end);
    int on_link = open_tap(argv[3]), space = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        fail(argv[1]);
    int on_host = open_tap(argv[2]);
    link.tx.from = link.rx.to = on_host;
    link.tx.to = link.rx.from = on_link;
    if (rtl) {
        link.nic = std::make_unique<Nic>(1);
        link.nic->set(link.soft.set);
    }
    printf("%s %s\n", argv[2], argv[3]);
    fflush(stdout);
    link.run();
    link.print();
    return 0;
}
