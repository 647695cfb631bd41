//! Lazy fusion of maps: the bits of the reference, in whatever order and however often results are
//! read.

use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::Backend;
use elinvar_ops::catalogue::gelu::Approximate;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Generator, Tensor, step};

/// Devices that put everything off, and one that puts nothing off.
fn devices() -> Vec<CpuDevice> {
    let mut all = vec![CpuDevice::new(Isa::best(), 2).unwrap().fuse_from(usize::MAX)];
    for isa in Isa::all() {
        all.extend([1, 2, 3].map(|threads| CpuDevice::new(isa, threads).unwrap().fuse_from(0)));
    }
    all
}

fn draw<B: Backend>(d: &B::Device, seed: u64, shape: &[usize]) -> Tensor<B> {
    Generator::new(seed).randn(shape.to_vec(), d)
}

fn bits<B: Backend>(x: &Tensor<B>) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

/// A program of the test, for any backend: the bits of everything it makes.
trait Program {
    fn run<B: Backend>(&self, d: &B::Device) -> Vec<Vec<u32>>;
}

fn same(program: &impl Program, what: &str) {
    let want = program.run::<Reference>(&ReferenceDevice);
    for d in devices() {
        assert_eq!(program.run::<Cpu>(&d), want, "{what}, {d:?}, from {}", d.fuses_from());
    }
}

#[test]
fn chains_of_every_length() {
    struct Chain(usize, usize);
    impl Program for Chain {
        fn run<B: Backend>(&self, d: &B::Device) -> Vec<Vec<u32>> {
            let x = draw::<B>(d, 1, &[self.0]);
            let mut y = x.clone();
            let mut held = vec![];
            for i in 0..self.1 {
                y = match i % 5 {
                    0 => &y * 1.5 + 0.25,
                    1 => y.tanh(),
                    2 => &y * &x,
                    3 => y.exp().minimum(3.0),
                    _ => y.gelu(Approximate::None),
                };
                // Some intermediate results are read, too.
                if i % 3 == 1 {
                    held.push(y.clone());
                }
            }
            held.push(y);
            held.iter().rev().map(bits).collect()
        }
    }
    // Around blocks of 512 and the first piece of 4096; chains around the longest pass.
    for len in [0, 1, 511, 512, 513, 4096, 8192, 8193, 20_011] {
        for maps in [1, 2, 7, 8, 9, 30] {
            same(&Chain(len, maps), &format!("{maps} maps on {len} elements"));
        }
    }
}

#[test]
fn operands_of_all_kinds() {
    struct Operands;
    impl Program for Operands {
        fn run<B: Backend>(&self, d: &B::Device) -> Vec<Vec<u32>> {
            let x = draw::<B>(d, 1, &[60, 70]);
            let (row, column) = (draw::<B>(d, 2, &[70]), draw::<B>(d, 3, &[60, 1]));
            let put_off = x.exp() + &row;
            // Read whole, in part, turned, and twice.
            let part = put_off.narrow(0, 7, 40) * 2.0;
            let turned = put_off.transpose(0, 1) * draw::<B>(d, 4, &[70, 60]);
            let twice = &put_off * &put_off + &put_off;
            let chosen = twice.gt(&put_off).where_(&(&twice - 1.0), &(&column * &put_off));
            let tall = put_off.reshape([70, 60]) + draw::<B>(d, 5, &[70, 60]);
            let all = [part, turned, chosen.clone(), tall, put_off, chosen.sum()];
            all.iter().map(bits).collect()
        }
    }
    same(&Operands, "operands");
}

#[test]
fn gradients_through_what_was_put_off() {
    struct Gradients;
    impl Program for Gradients {
        fn run<B: Backend>(&self, d: &B::Device) -> Vec<Vec<u32>> {
            let x = draw::<B>(d, 1, &[33, 65]).requires_grad();
            let w = draw::<B>(d, 2, &[65, 20]).requires_grad();
            let y = ((&x * 2.0).sigmoid().matmul(&w).gelu(Approximate::None) + 1.0).square().mean();
            let g = y.backward();
            vec![bits(&y), bits(g.get(&x).unwrap()), bits(g.get(&w).unwrap())]
        }
    }
    same(&Gradients, "gradients");
}

#[test]
fn picks_that_are_put_off() {
    struct Picks([usize; 2]);
    impl Program for Picks {
        fn run<B: Backend>(&self, d: &B::Device) -> Vec<Vec<u32>> {
            let [h, w] = self.0;
            let x = draw::<B>(d, 1, &[2, 3, h, w]);
            let index = |n: usize, f: &dyn Fn(usize) -> usize| {
                Tensor::<B>::from_vec((0..n).map(|i| f(i) as i64).collect(), &[n], d)
            };
            let (rows, columns) =
                (index(2 * h + 1, &|i| i / 2 % h), index(2 * w + 3, &|i| (i + 1) * w / (2 * w + 4)));
            let (mirrored, few) = (index(w, &|i| w - 1 - i), index(3, &|i| i * 7 % w));
            // Read as they are, by maps, in part, turned, as another shape, and picked from again:
            // along the other axis, and along the same.
            let (tall, wide) = (x.index_select(2, &rows), x.index_select(3, &columns));
            let both = tall.index_select(3, &columns);
            let held = wide.index_select(2, &rows) * 2.0;
            let of_map = (&x * 3.0).exp().index_select(3, &mirrored).index_select(2, &rows);
            let all = [
                &both + &both.tanh(),
                held,
                both.narrow(3, 5, w) * 2.0,
                both.transpose(2, 3) + 1.0,
                both.reshape([6, -1]) - 1.0,
                both.index_select(3, &few) * both.index_select(3, &few),
                both.index_select(2, &index(3, &|i| i)).sum(),
                both.index_select(3, &index(0, &|i| i)) * 2.0,
                of_map,
                wide.index_select(3, &few),
                x.index_select(3, &few).index_select(3, &index(50, &|i| i % 3)),
                both,
                tall,
                wide,
            ];
            all.iter().map(bits).collect()
        }
    }
    for size in [[20, 15], [19, 16], [13, 33], [1, 600]] {
        same(&Picks(size), &format!("picks of {size:?}"));
    }
}

#[test]
fn images_enlarged_and_mirrored_with_their_gradients() {
    use elinvar_ops::catalogue::interpolate::{Interpolation, Target};
    use elinvar_ops::catalogue::pad::Mode;
    struct Images([usize; 2], Vec<usize>);
    impl Program for Images {
        fn run<B: Backend>(&self, d: &B::Device) -> Vec<Vec<u32>> {
            let x = draw::<B>(d, 1, &[2, 3, self.0[0], self.0[1]]).requires_grad();
            let modes = [false, true].map(|align_corners| Interpolation::Linear { align_corners });
            let mut made = vec![];
            // Gradients that are there, and gradients that are put off themselves.
            for there in [true, false] {
                let mut all = vec![];
                for mode in modes.into_iter().chain([Interpolation::Nearest]) {
                    all.push(x.interpolate(&Target::Size(self.1.clone()), mode));
                }
                for mode in [Mode::Reflect, Mode::Replicate, Mode::Circular] {
                    all.push(x.pad([3, 1, -1, 4], mode));
                }
                for y in &all {
                    let g = if there { y.sum() } else { y.square().sum() }.backward();
                    made.extend([bits(y), bits(g.get(&x).unwrap())]);
                }
            }
            made
        }
    }
    for (from, to) in [([20, 17], [40, 34]), ([19, 20], [7, 70]), ([16, 16], [16, 50]), ([30, 12], [11, 5])] {
        same(&Images(from, to.to_vec()), &format!("{from:?} to {to:?}"));
    }
}

#[test]
fn tasks_of_a_callers_own_pool_ask_for_the_same() {
    use rayon::prelude::*;
    // A thread that waits for the device's threads takes up another task of its pool, which wants
    // the same numbers.
    let d = CpuDevice::new(Isa::best(), 2).unwrap().fuse_from(0);
    let own = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for round in 0..10 {
        let x = draw::<Cpu>(&d, round, &[60_000]);
        let y = x.exp() * x.tanh();
        let sums: Vec<f64> = own.install(|| (0..32).into_par_iter().map(|_| y.sum().item::<f64>()).collect());
        assert!(sums.iter().all(|s| s.to_bits() == sums[0].to_bits()), "{sums:?}");
    }
}

#[test]
fn two_threads_ask_for_the_same() {
    let d = CpuDevice::new(Isa::best(), 2).unwrap().fuse_from(0);
    let want = {
        let x = draw::<Reference>(&ReferenceDevice, 1, &[9000]);
        bits(&(x.exp() * x.tanh()))
    };
    for _ in 0..50 {
        let x = draw::<Cpu>(&d, 1, &[9000]);
        let (a, b) = (x.exp(), x.tanh());
        let y = &a * &b;
        let z = &b * &a;
        std::thread::scope(|s| {
            for tensor in [&y, &z, &a, &b, &y] {
                let want = &want;
                let exact = std::ptr::eq(tensor, &raw const y) || std::ptr::eq(tensor, &raw const z);
                s.spawn(move || {
                    let got = bits(tensor);
                    assert!(!exact || got == *want);
                });
            }
        });
    }
}

#[test]
fn rows_that_are_repeated() {
    struct Repeated(usize);
    impl Program for Repeated {
        fn run<B: Backend>(&self, d: &B::Device) -> Vec<Vec<u32>> {
            let (x, row) = (draw::<B>(d, 1, &[40_000 / self.0, self.0]), draw::<B>(d, 2, &[self.0]));
            [&x + &row, &row - &x * 2.0].iter().map(bits).collect()
        }
    }
    // Around what is written out several times, and what is read in place.
    for n in [1, 3, 255, 256, 257, 700, 1023, 1024, 1025, 3000] {
        same(&Repeated(n), &format!("rows of {n}"));
    }
}

#[test]
fn rows_that_share_an_operand_or_have_a_number_each() {
    struct Rows(usize);
    impl Program for Rows {
        fn run<B: Backend>(&self, d: &B::Device) -> Vec<Vec<u32>> {
            let n = self.0;
            let x = draw::<B>(d, 1, &[5, 7, 3, n]);
            // What the rows read: numbers of some axes or others, whole rows, every other row, rows
            // from the last to the first.
            let others = [
                draw::<B>(d, 2, &[7, 3, 1]),
                draw::<B>(d, 3, &[5, 1, 3, 1]),
                draw::<B>(d, 4, &[5, 7, 1, 1]),
                draw::<B>(d, 5, &[7, 1, n]),
                draw::<B>(d, 6, &[5, 1, 1, n]),
                draw::<B>(d, 7, &[7, 6, n]).i((.., step(0..6, 2))),
                draw::<B>(d, 8, &[3, n]).flip([0]),
                draw::<B>(d, 9, &[7, 3, 2]).i((.., .., 1..2)),
            ];
            let mut all: Vec<_> = others.iter().map(|y| bits(&(&x - y))).collect();
            let [a, b, .., c] = &others;
            all.push(bits(&((&x * a + b) * c - &others[3])));
            // Intermediate results are read, too; two steps, and two that both are read later.
            let way = &x * a + b;
            let (left, right) = (&way - c, &way * &others[2]);
            all.extend([
                bits(&(&way + &others[7])),
                bits(&(&left * &right - &way)),
                bits(&way),
                bits(&right),
            ]);
            all
        }
    }
    // Several rows of a block, one, and several blocks of a row, even or not.
    for n in [256, 257, 1000, 1024, 2049, 3136] {
        same(&Rows(n), &format!("rows of {n}"));
    }
}
