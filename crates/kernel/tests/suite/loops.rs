//! Loops: bounds on their passes, and launches that are cut: the bits of whole ones, and no more
//! passes than allowed.

use elinvar_kernel::Kernel;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::interp::{Launch, Memory, Quirks, run, run_with_quirks};
use elinvar_kernel::ir::{Access, Constant, Elem, Scalar};
use elinvar_kernel::loops::Loops;

const GROUPS: u32 = 2;
const LANES: u32 = 4;
const OUT: usize = 64;

/// What a test's kernels are given: invocations are numbered by `i`; x holds small numbers, y is
/// written, n is a parameter.
struct Given<'k> {
    k: &'k Builder,
    i: Val<'k>,
    n: Val<'k>,
}

fn kernel(write: impl for<'k> Fn(Given<'k>)) -> Kernel {
    let k = Builder::new("t", [LANES, 1, 1]);
    k.buffer("x", Elem::I32, Access::Read);
    k.buffer("y", Elem::I32, Access::ReadWrite);
    let n = k.param("n", Scalar::I32);
    write(Given { k: &k, i: k.global_id(0).to(Scalar::I32), n });
    k.finish()
}

fn x() -> elinvar_kernel::ir::Place {
    elinvar_kernel::ir::Place::Buffer(0)
}
fn y() -> elinvar_kernel::ir::Place {
    elinvar_kernel::ir::Place::Buffer(1)
}

fn memory() -> [Memory; 2] {
    let cells = (0..OUT as u64).map(|i| i * 7 % 13).collect();
    [Memory { elem: Elem::I32, cells }, Memory::zeros(Elem::I32, OUT)]
}

fn launch(n: i64) -> Launch {
    Launch { groups: [GROUPS, 1, 1], params: vec![Constant::int(Scalar::I32, n)] }
}

/// The passes that are bounded; and what y holds after a whole launch.
fn whole(k: &Kernel, n: i64) -> (u64, Vec<u64>) {
    let loops = Loops::of(k).expect("there are loops");
    let passes = loops.passes(&loops.counts(&launch(n), None));
    let mut all = memory();
    let most = Quirks { max_loop_iterations: Some(passes), ..Quirks::default() };
    run_with_quirks(k, &launch(n), &mut all, most).unwrap_or_else(|e| panic!("{e}"));
    (passes, all[1].cells.clone())
}

/// How many launches there are if no more passes are allowed, and what y holds after them.
fn cut(k: &Kernel, n: i64, limit: u64) -> Result<(u64, Vec<u64>), String> {
    let loops = Loops::of(k).expect("there are loops");
    let launch = launch(n);
    let counts = loops.counts(&launch, None);
    let cut = loops.cut(&launch, None, &counts, limit)?;
    let part = loops.checkpoint(&cut.path)?;
    let [x, y] = memory();
    let mut all =
        [Memory::zeros(Elem::U32, 16), Memory::zeros(Elem::U32, part.kept(launch.groups) as usize), x, y];
    let most = Quirks { max_loop_iterations: Some(limit), ..Quirks::default() };
    for numbers in cut.numbers() {
        for (cell, n) in all[0].cells.iter_mut().zip(numbers.into_iter().flatten()) {
            *cell = n;
        }
        run_with_quirks(&part.kernel, &launch, &mut all, most).map_err(|e| e.to_string())?;
    }
    Ok((cut.launches(), all[3].cells.clone()))
}

/// Sums in a loop whose end differs between invocations, and what carries them.
fn sums(Given { k, i, n }: Given<'_>) {
    let end = (k.load(x(), i, 1) + n).min(n);
    let zero = k.int(Scalar::I32, 0);
    let init = [zero, k.float(Scalar::F64, 0.5), k.int(Scalar::I64, -3), k.constant(false.into())];
    let all = k.for_(i, end, k.int(Scalar::I32, 3), &init, |j, c| {
        let v = k.load(x(), j % 64, 1);
        let odd = (v & 1).eq(v.like(1));
        vec![c[0] * 3 + v, c[1] + v.to(Scalar::F64), c[2] * 5 - v.to(Scalar::I64), c[3].select(!odd, odd)]
    });
    let rest = all[1].to(Scalar::I32) + all[2].to(Scalar::I32) + all[3].to(Scalar::I32);
    k.store(y(), i, all[0] + rest);
}

#[test]
fn a_cut_launch_is_the_whole_one() {
    let nested = kernel(|Given { k, i, n }| {
        let zero = k.int(Scalar::I32, 0);
        k.store(y(), i + 32, i);
        k.if_(i.lt(i.like(5)), || {
            let all = k.for_(zero, i.min(i.like(3)) + 1, zero.like(1), &[zero, i], |a, c| {
                let before = c[0] + a;
                let some = k.for_(a, n, zero.like(1), &[before], |b, d| {
                    k.if_(b.eq(i), || k.store(y(), i + 16, d[0]));
                    vec![d[0] * 5 + b]
                });
                vec![some[0] + 1, c[1] * 3 + some[0]]
            });
            k.store(y(), i, all[0] + all[1]);
        });
    });
    let vectors = kernel(|Given { k, i, n }| {
        let zero = k.int(Scalar::I32, 0);
        let init = k.compose(&[i, i + 1]);
        let all = k.for_(zero, n, zero.like(1), &[init], |j, c| {
            let both = k.compose(&[j, j * 2]);
            vec![c[0] * both.like(3) + both]
        });
        k.store(y(), i, all[0].extract(0) + all[0].extract(1));
    });
    // Each turn hands to the next invocation what it has.
    let shared = kernel(|Given { k, i, n }| {
        let places = k.shared("ring", Elem::I32, LANES);
        let t = k.local_id(0);
        k.store(places, t, i);
        k.barrier();
        let zero = k.int(Scalar::I32, 0);
        let all = k.for_(zero, n, zero.like(1), &[zero], |j, c| {
            let got = k.load(places, (t + 1) & k.u32(LANES - 1), 1);
            k.barrier();
            k.store(places, t, got * 3 + j);
            k.barrier();
            vec![c[0] + got]
        });
        k.store(y(), i, all[0] + k.load(places, t, 1));
    });
    let tail = kernel(|Given { k, i, n }| {
        let zero = k.int(Scalar::I32, 0);
        let old = k.for_(zero, zero.like(4), zero.like(1), &[i], |j, c| vec![c[0] + j])[0];
        let way = k.if_else(
            i.lt(i.like(3)),
            || k.for_(zero, n, zero.like(1), &[old], |j, c| vec![c[0] * 3 + j]),
            || vec![old - 1],
        );
        let more = k.for_(zero, zero.like(5), zero.like(1), &way, |j, c| vec![c[0] ^ j]);
        k.store(y(), i, more[0]);
    });
    // kernel, n, passes of the whole launch, limit, launches
    let rows: [(&str, Kernel, i64, u64, u64, u64); 8] = [
        ("sums", kernel(sums), 100, 35, 10, 4),
        ("sums", kernel(sums), 100, 35, 34, 2),
        ("one loop in a loop", nested.clone(), 50, 210, 110, 2),
        ("parts of a loop in a loop", nested, 50, 210, 30, 8),
        ("vectors", vectors, 41, 42, 20, 3),
        ("shared memory", shared, 30, 31, 20, 3),
        ("in a branch, loops around", tail, 60, 72, 40, 3),
        ("alone", kernel(sums), 5, 3, 2, 2),
    ];
    for (name, k, n, passes, limit, launches) in rows {
        let (bound, want) = whole(&k, n);
        assert_eq!(bound, passes, "{name}");
        let (parts, got) = cut(&k, n, limit).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(parts, launches, "{name}");
        assert_eq!(got, want, "{name}, cut to {limit}");
        // Parts of any size.
        for limit in (2..passes).rev().step_by(3) {
            match cut(&k, n, limit) {
                Ok((_, got)) => assert_eq!(got, want, "{name}, cut to {limit}"),
                Err(why) => {
                    assert!(limit < 35 && why.contains("more") || why.contains("shares"), "{name}: {why}")
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_cut_is_said() {
    let written = kernel(|Given { k, i, n }| {
        let zero = k.int(Scalar::I32, 0);
        let old = k.load(y(), i, 1);
        let all = k.for_(zero, n, zero.like(1), &[old], |j, c| vec![c[0] + j]);
        k.store(y(), i, all[0]);
    });
    let endless = kernel(|Given { k, i, .. }| {
        let (zero, end) = (k.int(Scalar::I32, 0), k.load(x(), i, 1));
        k.store(y(), i, k.for_(zero, end, zero.like(1), &[zero], |j, c| vec![c[0] + j])[0]);
    });
    let several = kernel(|Given { k, i, n }| {
        let zero = k.int(Scalar::I32, 0);
        let first = k.for_(zero, n, zero.like(1), &[zero], |j, c| vec![c[0] + j]);
        let second = k.for_(zero, n, zero.like(1), &first, |j, c| vec![c[0] * 3 + j]);
        k.store(y(), i, second[0]);
    });
    let rows =
        [(written, "looks at what changes"), (endless, "there would be"), (several, "one after the other")];
    for (k, want) in rows {
        let why = cut(&k, 100, 60).unwrap_err();
        assert!(why.contains(want), "{why}\nshould say: {want}");
    }
    assert!(Loops::of(&kernel(|Given { k, i, n }| k.store(y(), i, n))).is_none());
}

/// Where begin and end share a part, what that is does not count; clamps and masks do.
#[test]
fn bounds_are_close() {
    type Ends = for<'k> fn(&'k Builder, Val<'k>, Val<'k>) -> [Val<'k>; 3];
    let rows: [(&str, Ends, u64); 9] = [
        ("n", |_, i, n| [i.like(0), n, i.like(1)], 1000),
        ("by 7", |_, i, n| [i.like(0), n, i.like(7)], 143),
        (
            "a chunk",
            |k, _, n| {
                let from = k.group_id(0).to(Scalar::I32) * 512;
                [from, (from + 512).min(n), n.like(1)]
            },
            512,
        ),
        (
            "a lane of a chunk",
            |k, i, n| {
                let from = k.group_id(0).to(Scalar::I32) * 512;
                [from + k.local_id(0).to(Scalar::I32), (from + 512).min(n), i.like(4)]
            },
            128,
        ),
        ("whole steps", |_, i, n| [i.like(0), n & -64, i.like(64)], 16),
        ("loaded and clamped", |k, i, n| [i.like(0), k.load(x(), i, 1).min(n), i.like(1)], 1000),
        ("what is left of a quotient", |_, i, n| [i.like(0), i % n, i.like(1)], 7),
        ("two ways", |k, i, n| [i.like(0), k.load(x(), i, 1).eq(n).select(n, n - 5), i.like(1)], 1000),
        (
            "found by a loop",
            |k, i, n| {
                let found = k.for_(i.like(0), i.like(8), i.like(1), &[n], |j, c| {
                    vec![k.load(x(), j, 1).eq(n).select(j, c[0])]
                });
                [found[0], n, i.like(1)]
            },
            1000,
        ),
    ];
    for (name, ends, want) in rows {
        let k = kernel(|Given { k, i, n }| {
            let [start, end, step] = ends(k, i, n);
            let sum = k.for_(start, end, step, &[i.like(0)], |j, c| vec![c[0] + j]);
            k.store(y(), i, sum[0]);
        });
        let loops = Loops::of(&k).expect("there is one");
        let counts = loops.counts(&launch(1000), None);
        assert_eq!(counts.last(), Some(&want), "{name}");
        let mut all = memory();
        run(&k, &launch(1000), &mut all).unwrap_or_else(|e| panic!("{e}"));
    }
}
