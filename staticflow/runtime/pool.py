"""The threads of native code as LLVM text: one pool for the process.

``i32 @parallel(ptr task, ptr arg, i64 count, i64 work)`` runs ``task(arg, first, last, worker)`` on
ranges that together make 0..count, on the workers and on the caller, and returns when all have run:
0, or what one of the tasks returned that failed. The number of the worker is less than count, and
the caller's is 0. If there is less ``work`` than `ENOUGH`, the caller runs
all at once. Each thread has a share of its own, in order, of which it takes a
piece at a time, and then takes pieces of the others' shares; so a worker that wakes late, or that
the system gives no time, does not hold the rest up. A second caller at the same time, such as a
task itself, runs its own task alone.

A worker that finds nothing to do looks on for a while, then sleeps. It *enters* a job by counting
itself as active and only then looks whether the job is still open; the caller closes the job and
only then waits until nobody is active. So nobody touches a job that is over.

The number of threads is read from ``wanted``, an i64 outside. ``stop`` ends the workers and keeps
the pool taken until ``resume``; new ones are made when they are needed. Workers leave all signals
to the threads of the caller but those of their own faults, so that `faulthandler` says what it can.
"""

from __future__ import annotations

from staticflow.codegen.work import ENOUGH

__all__ = ["EXPORTS", "pool_text"]

EXPORTS = ("parallel", "jobs", "stop", "resume")

_MOST = 1024  # threads that a job can have shares for
_PIECES = 8  # of a share: what the threads may end apart by, and what atomic operations cost
_SPINS = 4000  # looks of a worker before it sleeps: about as long as waking it up takes

_FAULTS = 4, 7, 8, 11  # SIGILL, SIGBUS, SIGFPE and SIGSEGV, of Linux
_MASK = -1 - sum(1 << number - 1 for number in _FAULTS)

_FUTEX = {"x86_64": 202, "aarch64": 98}  # the numbers of the system call
_PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}


def pool_text(system: str, machine: str) -> str:
    """The text for a machine, as `platform` names it; where no pool is known, callers run alone."""
    if system != "Linux" or machine not in _FUTEX:
        return _ALONE
    numbers = {"spins": _SPINS, "most": _MOST, "pieces": _PIECES, "enough": ENOUGH, "mask": _MASK}
    return _TEXT.format(futex=_FUTEX[machine], pause=_PAUSE[machine], **numbers)


_TEXT = """
@wanted = external global i64
@busy = internal global i32 0, align 64
@generation = internal global i32 0, align 64 ; counts the jobs; workers sleep on it
@sleepers = internal global i32 0, align 64
@open = internal global i32 0, align 64
@active = internal global i32 0, align 64 ; workers in a job; the caller sleeps on it
@waiting = internal global i32 0, align 64
@leaving = internal global i32 0, align 64
@made = internal global i64 0
@begun = internal global i64 0
@handles = internal global [{most} x i64] zeroinitializer

@task = internal global ptr null, align 64
@argument = internal global ptr null
@count = internal global i64 0
@shares = internal global i64 0
@piece = internal global i64 0
@status = internal global i32 0, align 64
@next = internal global [{most} x [8 x i64]] zeroinitializer, align 64 ; of each share, a line apart

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sched_yield()
declare i64 @syscall(i64, ...)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @sleep_on(ptr %word, i32 %value) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 128, i32 %value, ptr null)
  ret void
}}

define internal void @wake(ptr %word) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 129, i32 2147483647)
  ret void
}}

define internal void @announce() {{
entry:
  %old = atomicrmw add ptr @generation, i32 1 seq_cst
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %all.awake = icmp eq i32 %sleepers, 0
  br i1 %all.awake, label %done, label %some
some:
  call void @wake(ptr @generation)
  br label %done
done:
  ret void
}}

define internal i64 @begin_of(i64 %share) {{
  %count = load i64, ptr @count
  %shares = load i64, ptr @shares
  %size = udiv i64 %count, %shares
  %more = urem i64 %count, %shares
  %some = call i64 @llvm.umin.i64(i64 %share, i64 %more)
  %full = mul i64 %share, %size
  %at = add i64 %full, %some
  ret i64 %at
}}

; Take pieces, of one's own share first, until there are none.
define internal void @work(i64 %self) {{
entry:
  %task = load ptr, ptr @task
  %argument = load ptr, ptr @argument
  %shares = load i64, ptr @shares
  %piece = load i64, ptr @piece
  %has.share = icmp ult i64 %self, %shares
  br i1 %has.share, label %share, label %done
share:
  %s = phi i64 [ 0, %entry ], [ %s.next, %following ]
  %sum = add i64 %self, %s
  %number = urem i64 %sum, %shares
  %after = add i64 %number, 1
  %end = call i64 @begin_of(i64 %after)
  %next.at = getelementptr [{most} x [8 x i64]], ptr @next, i64 0, i64 %number, i64 0
  br label %claim
claim:
  %from = atomicrmw add ptr %next.at, i64 %piece monotonic
  %some.left = icmp ult i64 %from, %end
  br i1 %some.left, label %run, label %following
run:
  %far = add i64 %from, %piece
  %to = call i64 @llvm.umin.i64(i64 %far, i64 %end)
  %code = call i32 %task(ptr %argument, i64 %from, i64 %to, i64 %self)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %going, label %failed
failed:
  store atomic i32 %code, ptr @status monotonic, align 4
  br label %done
going:
  %status = load atomic i32, ptr @status monotonic, align 4
  %all.good = icmp eq i32 %status, 0
  br i1 %all.good, label %claim, label %done
following:
  %s.next = add i64 %s, 1
  %more = icmp ult i64 %s.next, %shares
  br i1 %more, label %share, label %done
done:
  ret void
}}

define internal ptr @worker(ptr %number) {{
entry:
  %self = ptrtoint ptr %number to i64
  br label %look
look:
  %seen = load atomic i32, ptr @generation acquire, align 4
  %leaving = load atomic i32, ptr @leaving acquire, align 4
  %stays = icmp eq i32 %leaving, 0
  br i1 %stays, label %enter, label %leave
leave:
  ret ptr null
enter:
  %others = atomicrmw add ptr @active, i32 1 seq_cst
  %open = load atomic i32, ptr @open seq_cst, align 4
  %is.open = icmp ne i32 %open, 0
  br i1 %is.open, label %work, label %out
work:
  call void @work(i64 %self)
  br label %out
out:
  %before = atomicrmw sub ptr @active, i32 1 seq_cst
  %waiting = load atomic i32, ptr @waiting seq_cst, align 4
  %was.last = icmp eq i32 %before, 1
  %is.waited.for = icmp ne i32 %waiting, 0
  %tell = and i1 %was.last, %is.waited.for
  br i1 %tell, label %tells, label %idle
tells:
  call void @wake(ptr @active)
  br label %idle
idle:
  %n = phi i32 [ 0, %out ], [ 0, %tells ], [ %n.next, %pause ], [ 0, %sleep ]
  %now = load atomic i32, ptr @generation acquire, align 4
  %is.new = icmp ne i32 %now, %seen
  br i1 %is.new, label %look, label %still
still:
  %n.next = add i32 %n, 1
  %patient = icmp ult i32 %n, {spins}
  br i1 %patient, label %pause, label %sleep
pause:
  call void {pause}
  br label %idle
sleep:
  %asleep = atomicrmw add ptr @sleepers, i32 1 seq_cst
  call void @sleep_on(ptr @generation, i32 %seen)
  %awake = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %idle
}}

; Make workers until there are `wanted`, or the system gives no more.
define internal void @hire(i64 %wanted) noinline {{
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  store i64 {mask}, ptr %all
  %masked = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  %first = load i64, ptr @made
  br label %one
one:
  %made = phi i64 [ %first, %entry ], [ %number, %another ]
  store i64 %made, ptr @made
  %few = icmp ult i64 %made, %wanted
  br i1 %few, label %make, label %done
make:
  %handle = getelementptr [{most} x i64], ptr @handles, i64 0, i64 %made
  %number = add i64 %made, 1
  %name = inttoptr i64 %number to ptr
  %failure = call i32 @pthread_create(ptr %handle, ptr null, ptr @worker, ptr %name)
  %is.there = icmp eq i32 %failure, 0
  br i1 %is.there, label %another, label %done
another:
  br label %one
done:
  %unmasked = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret void
}}

define i32 @parallel(ptr %task, ptr %argument, i64 %count, i64 %work) {{
entry:
  %little = icmp slt i64 %work, {enough}
  br i1 %little, label %alone, label %look
look:
  %wanted = load atomic i64, ptr @wanted monotonic, align 8
  %some = call i64 @llvm.umin.i64(i64 %wanted, i64 %count)
  %shares = call i64 @llvm.umin.i64(i64 %some, i64 {most})
  %is.many = icmp ugt i64 %shares, 1
  br i1 %is.many, label %take, label %alone
take:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %is.free = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %is.free, label %begin, label %alone
alone:
  %own = call i32 %task(ptr %argument, i64 0, i64 %count, i64 0)
  ret i32 %own
begin:
  %helpers = sub i64 %shares, 1
  %made = load i64, ptr @made
  %few = icmp ult i64 %made, %helpers
  br i1 %few, label %hire, label %lay.out
hire:
  call void @hire(i64 %helpers)
  br label %lay.out
lay.out:
  %begun = load i64, ptr @begun
  %begun.next = add i64 %begun, 1
  store i64 %begun.next, ptr @begun
  store ptr %task, ptr @task
  store ptr %argument, ptr @argument
  store i64 %count, ptr @count
  store i64 %shares, ptr @shares
  store atomic i32 0, ptr @status monotonic, align 4
  %pieces = mul i64 %shares, {pieces}
  %part = udiv i64 %count, %pieces
  %piece = call i64 @llvm.umax.i64(i64 %part, i64 1)
  store i64 %piece, ptr @piece
  br label %share
share:
  %s = phi i64 [ 0, %lay.out ], [ %s.next, %share ]
  %from = call i64 @begin_of(i64 %s)
  %next.at = getelementptr [{most} x [8 x i64]], ptr @next, i64 0, i64 %s, i64 0
  store i64 %from, ptr %next.at
  %s.next = add i64 %s, 1
  %more = icmp ult i64 %s.next, %shares
  br i1 %more, label %share, label %start
start:
  store atomic i32 1, ptr @open seq_cst, align 4
  call void @announce()
  call void @work(i64 0)
  store atomic i32 0, ptr @open seq_cst, align 4
  br label %wait
wait:
  %n = phi i32 [ 0, %start ], [ %n.next, %pause ], [ 0, %woken ]
  %active = load atomic i32, ptr @active seq_cst, align 4
  %all.out = icmp eq i32 %active, 0
  br i1 %all.out, label %done, label %still
still:
  %n.next = add i32 %n, 1
  %patient = icmp ult i32 %n, {spins}
  br i1 %patient, label %pause, label %sleep
pause:
  call void {pause}
  br label %wait
sleep:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  %inside = load atomic i32, ptr @active seq_cst, align 4
  %still.some = icmp ne i32 %inside, 0
  br i1 %still.some, label %sleeps, label %woken
sleeps:
  call void @sleep_on(ptr @active, i32 %inside)
  br label %woken
woken:
  store atomic i32 0, ptr @waiting seq_cst, align 4
  br label %wait
done:
  %status = load atomic i32, ptr @status monotonic, align 4
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %status
}}

; How many jobs had several threads so far.
define i64 @jobs() {{
  %begun = load i64, ptr @begun
  ret i64 %begun
}}

define void @stop() {{
entry:
  br label %take
take:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %is.free = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %is.free, label %end, label %later
later:
  %yielded = call i32 @sched_yield()
  br label %take
end:
  store atomic i32 1, ptr @leaving seq_cst, align 4
  call void @announce()
  %made = load i64, ptr @made
  br label %one
one:
  %i = phi i64 [ 0, %end ], [ %i.next, %join ]
  %some = icmp ult i64 %i, %made
  br i1 %some, label %join, label %done
join:
  %handle.at = getelementptr [{most} x i64], ptr @handles, i64 0, i64 %i
  %handle = load i64, ptr %handle.at
  %joined = call i32 @pthread_join(i64 %handle, ptr null)
  %i.next = add i64 %i, 1
  br label %one
done:
  store i64 0, ptr @made
  store atomic i32 0, ptr @leaving seq_cst, align 4
  ret void
}}

define void @resume() {{
  store atomic i32 0, ptr @busy release, align 4
  ret void
}}

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""

_ALONE = """
define i32 @parallel(ptr %task, ptr %argument, i64 %count, i64 %work) {
  %own = call i32 %task(ptr %argument, i64 0, i64 %count, i64 0)
  ret i32 %own
}

define i64 @jobs() {
  ret i64 0
}

define void @stop() {
  ret void
}

define void @resume() {
  ret void
}
"""
