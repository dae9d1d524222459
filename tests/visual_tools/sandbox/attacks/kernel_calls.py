"""Attacks through system calls that have no business in a sandbox. Each is harmless where it works."""

import ctypes
import os
import shutil

from visual_tools.sandbox.check.context import CheckContext, CheckFailed, cell_attack, check

process_memory = cell_attack(
    "the memory of other processes cannot be read or written",
    """
    here = ctypes.create_string_buffer(8)
    vector = struct.pack("=QQ", ctypes.addressof(here), 8)
    for pid in others():
        for name in ("process_vm_readv", "process_vm_writev"):  # at address 0: EFAULT shows that one may
            attempt(f"{name} {pid}", lambda: syscall(name, pid, vector, 1, struct.pack("=QQ", 0, 8), 1, 0), past=(14,))
    """,
    at_least=4,
)


mounting = cell_attack(
    "nothing can be mounted",
    """
    missing = b"missing-folder"  # ENOENT shows that one may
    attempt("mount", lambda: syscall("mount", b"none", missing, b"tmpfs", 0, None), past=(2,))
    attempt("umount", lambda: syscall("umount2", missing, 0), past=(2,))
    attempt("pivot_root", lambda: syscall("pivot_root", missing, missing), past=(2, 22))
    attempt("fsopen", lambda: syscall("fsopen", b"tmpfs", 0))
    attempt("open_tree", lambda: syscall("open_tree", -100, b"/", 1))
    attempt("move_mount", lambda: syscall("move_mount", -100, missing, -100, missing, 0), past=(2,))
    read_only = struct.pack("=4Q", 1, 0, 0, 0)
    attempt("mount_setattr", lambda: syscall("mount_setattr", -100, missing, 0, read_only, 32), past=(2,))
    """,
    at_least=7,
)

keyrings = cell_attack(
    "kernel keyrings cannot be used",
    """
    attempt("add_key", lambda: syscall("add_key", b"user", b"k25check", b"x", 1, -2))
    attempt("session keyring", lambda: syscall("keyctl", 0, -3, 0))
    attempt("user keyring", lambda: syscall("keyctl", 0, -4, 1))
    attempt("request_key", lambda: syscall("request_key", b"user", b"k25check", None, 0), past=(126,))
    """,
    at_least=4,
)

watching_the_kernel = cell_attack(
    "bpf, perf, userfaultfd and io_uring are closed",
    """
    attempt("bpf map", lambda: syscall("bpf", 0, struct.pack("=5I", 2, 4, 8, 1, 0) + bytes(100), 120))
    event = struct.pack("=IIQQQQQ", 1, 112, 0, 0, 0, 0, 1 << 5 | 1 << 6) + bytes(64)
    attempt("perf", lambda: syscall("perf_event_open", event, 0, -1, -1, 0))
    attempt("userfaultfd", lambda: syscall("userfaultfd", 1))
    attempt("io_uring", lambda: syscall("io_uring_setup", 4, bytes(120)))
    attempt("kernel log", lambda: syscall("syslog", 3, ctypes.create_string_buffer(64), 64))
    attempt("fanotify", lambda: syscall("fanotify_init", 0, 0))
    """,
    at_least=6,
)

the_machine = cell_attack(
    "modules, clock, swap, names and power of the machine are closed",
    """
    attempt("init_module", lambda: syscall("init_module", None, 0, b""), past=(8, 14, 22))
    attempt("delete_module", lambda: syscall("delete_module", b"k25check", 0), past=(2,))
    attempt("reboot", lambda: syscall("reboot", 0, 0, 0, None), past=(22,))
    attempt("kexec", lambda: syscall("kexec_load", 0, 0, None, 0x7FFF), past=(22,))
    attempt("swapon", lambda: syscall("swapon", b"missing", 0), past=(2,))
    attempt("acct", lambda: syscall("acct", b"missing"), past=(2,))
    attempt("clock", lambda: syscall("settimeofday", None, None))
    name = os.uname().nodename.encode()
    attempt("host name", lambda: syscall("sethostname", name, len(name)))
    attempt("vhangup", lambda: in_child(lambda: os.setsid() or syscall("vhangup")))
    """,
    at_least=9,
)

handles = cell_attack(
    "files cannot be opened by number, past every folder",
    """
    handle, mount = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128)), ctypes.c_int()
    attempt("name", lambda: syscall("name_to_handle_at", -100, b".", ctypes.byref(handle), ctypes.byref(mount), 0))
    attempt("open", lambda: syscall("open_by_handle_at", -100, struct.pack("=Ii8x", 8, 1), 0), past=(9, 22, 116))
    """,
    at_least=2,
)

capabilities = cell_attack(
    "a kernel has no capability, is not root and cannot become it",
    """
    def capabilities():
        sets = ctypes.create_string_buffer(24)
        syscall("capget", struct.pack("=Ii", 0x20080522, 0), sets)
        effective, permitted, inheritable = (struct.unpack("=6I", sets.raw)[i::3] for i in range(3))
        if not any(effective + permitted + inheritable):
            raise PermissionError(errno.EPERM, "all sets are empty")
        return [hex(word) for word in effective]
    def become_root():
        os.setuid(0)
        return os.getuid()
    attempt("sets", capabilities)
    attempt("setuid", lambda: in_child(become_root))
    attempt("setgid", lambda: in_child(lambda: os.setgid(0)))
    attempt("chroot", lambda: in_child(lambda: os.chroot(".")))
    open("owned", "w").close()
    attempt("chown", lambda: os.chown("owned", 12345, 12345))
    """,
    at_least=5,
)

no_new_privileges = cell_attack(
    "no_new_privs is set: setuid programs have no power",
    """
    def look():
        if syscall("prctl", 39, 0, 0, 0, 0) != 1:
            return "not set"
        raise PermissionError(errno.EPERM, "set")
    attempt("no_new_privs", look)
    """,
)


@check("attack", "a planted setuid program does not change who the kernel is", place="own")
async def setuid_programs(context: CheckContext) -> str:
    """A copy of `id` that belongs to whoever checks, root at best, with the setuid bit."""
    async with context.kernel() as kernel:
        planted = kernel.folder / "planted-id"
        await _copy_setuid(shutil.which("id") or "/usr/bin/id", str(planted))
        answers = await context.attempt(
            """
            import subprocess
            def effective(path):
                told = subprocess.run([path, "-u"], capture_output=True, text=True)
                if told.returncode:
                    raise PermissionError(errno.EPERM, told.stderr)
                if int(told.stdout) == os.getuid() != 0:
                    raise PermissionError(errno.EPERM, f"it runs as {told.stdout.strip()}, as the kernel does")
                return told.stdout
            attempt("the planted one", lambda: effective("./planted-id"))
            def substitute():
                told = subprocess.run(["su", "-c", "id -u"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
                if told.returncode:
                    raise PermissionError(errno.EPERM, told.stderr)
                return told.stdout
            attempt("su", substitute)
            """,
            kernel=kernel,
            at_least=2,
        )
    return answers.why_refused()


async def _copy_setuid(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    os.chmod(target, 0o4755)  # noqa: PTH101 - beside copyfile


foreign_architecture = cell_attack(
    "system calls of 32 bit and x32 are closed",
    """
    import mmap, platform
    def run_32_bit():
        if platform.machine() != "x86_64":
            raise OSError(errno.ENOSYS, "another machine")
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("b8 14 00 00 00 cd 80 c3"))  # mov eax, 20 (getpid); int 0x80; ret
        return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    attempt("int 0x80", lambda: in_child(run_32_bit))
    NUMBERS["x32 getpid"] = 0x40000000 | 39
    attempt("x32", lambda: in_child(lambda: syscall("x32 getpid")))
    """,
    at_least=2,
)

device_files = cell_attack(
    "device files cannot be made or opened",
    """
    attempt("make null", lambda: os.mknod("device", 0o20666, os.makedev(1, 3)))
    attempt("make disk", lambda: os.mknod("disk", 0o60666, os.makedev(8, 0)))
    paths = ["/dev/mem", "/dev/kmsg", "/dev/port", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/loop-control"]
    for path in [*paths, "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/userfaultfd", "/proc/kcore", "/dev/ptp0"]:
        attempt(path, lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
    """,
    at_least=15,
)

kernel_settings = cell_attack(
    "settings of the running kernel cannot be written",
    """
    for path in ("sys/kernel/core_pattern", "sys/vm/drop_caches", "sysrq-trigger", "../sys/power/state"):
        path = f"/proc/{path}"
        attempt(path, lambda: os.close(os.open(path, os.O_WRONLY)))
    def become_unkillable():
        os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000")
    attempt("oom score", lambda: in_child(become_unkillable))
    """,
    at_least=5,
)

terminal = cell_attack(
    "nothing can be typed into a terminal",
    """
    import fcntl
    attempt("/dev/tty", lambda: os.close(os.open("/dev/tty", os.O_RDWR)))
    def type_into(number):
        main, terminal = os.openpty()
        os.setsid()
        fcntl.ioctl(terminal, 0x540E, 0)
        fcntl.ioctl(terminal, number, b"x")
    attempt("TIOCSTI", lambda: in_child(lambda: type_into(0x5412)))
    attempt("TIOCLINUX", lambda: in_child(lambda: type_into(0x541C)), past=(22,))
    """,
    at_least=3,
)

layout_of_memory = cell_attack(
    "the layout of memory cannot be made predictable",
    """
    attempt("personality", lambda: in_child(lambda: syscall("personality", 0x0040000)))
    """,
)


@check("attack", "nothing stays in this machine's shared memory and message queues")
async def shared_memory(context: CheckContext) -> str:
    """System V and POSIX objects outlive the process that made them."""
    key = int(context.canaries.token[-8:], 16) >> 1
    answers = await context.ask(
        """
        attempt("shmget", lambda: syscall("shmget", planted.key, 4096, 0o1666))
        attempt("msgget", lambda: syscall("msgget", planted.key, 0o1666))
        attempt("semget", lambda: syscall("semget", planted.key, 1, 0o1666))
        attempt("mq_open", lambda: syscall("mq_open", planted.token.encode(), 0o102, 0o666, None))
        """,
        key=key,
    )
    libc = ctypes.CDLL(None)
    ids = {"shm": libc.shmget(key, 0, 0), "msg": libc.msgget(key, 0), "sem": libc.semget(key, 0, 0)}
    libc.shmctl(ids["shm"], 0, None)  # removes it, if there is one
    libc.msgctl(ids["msg"], 0, None)
    libc.semctl(ids["sem"], 0, 0)
    if left := [name for name, number in ids.items() if number != -1]:
        raise CheckFailed(f"left on this machine: {', '.join(left)}")
    if len(answers.open | answers.refused) < 4:
        raise CheckFailed("not all attempts were made")
    return answers.why_refused() or "made in namespaces of its own"


CHECKS = (
    *(process_memory, mounting, keyrings, watching_the_kernel, the_machine, handles),
    *(capabilities, no_new_privileges, setuid_programs, foreign_architecture, device_files, kernel_settings),
    *(terminal, layout_of_memory, shared_memory),
)
