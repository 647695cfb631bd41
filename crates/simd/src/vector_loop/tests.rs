use super::*;
use crate::compiled::Compiled;
use elinvar_lane::formula::Hints;

#[derive(Clone, Copy, Debug)]
struct Add;
impl Map<2> for Add {
    const NAME: &'static str = "add";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x + y
    }
}
#[derive(Clone, Copy, Debug)]
struct Fma;
impl Map<3> for Fma {
    const NAME: &'static str = "fma";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, z]: [L; 3]) -> L {
        x.fma(y, z)
    }
}

#[test]
fn a_light_formula_reads_elements_and_numbers_in_their_places() {
    let data: Vec<f32> = (0..1300).map(|i| i as f32).collect();
    let copies = [0.5f32; BLOCK];
    for isa in Isa::with_kernels() {
        // Registers before and behind the whole ones, and places that begin anywhere in a line.
        for n in [1, 15, 16, 17, 127, 128, 129, 143, 144, 145, 192, 193, 500, 1024] {
            for from in [0, 1, 15, 16, 100] {
                let (x, number) = (OperandSlice::of(&data[from..][..n]), OperandSlice::number(&copies));
                let made = |f: &dyn Fn(&mut UninitSlice<'_, f32>)| {
                    let mut y = Vec::with_capacity(n + from);
                    y.resize(from, -1.0);
                    let mut dst = UninitSlice::new(&mut y.spare_capacity_mut()[..n]);
                    f(&mut dst);
                    dst.assert_full();
                    // SAFETY: the room over them is full.
                    #[allow(unsafe_code, reason = "a vector of what was written")]
                    unsafe {
                        y.set_len(from + n);
                    }
                    y.split_off(from)
                };
                let at = |i: usize| (from + i) as f32;
                let sums = made(&|dst| fill(isa, &Compiled::<_, 2>(Add), &[x, number], dst));
                assert!(sums.iter().enumerate().all(|(i, &y)| y == at(i) + 0.5), "{isa}, {n} from {from}");
                let sums = made(&|dst| fill(isa, &Compiled::<_, 3>(Fma), &[number, x, x], dst));
                assert!(sums.iter().enumerate().all(|(i, &y)| y == at(i) * 1.5), "{isa}, {n} from {from}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "as many operands as it has")]
fn a_formula_is_not_run_on_fewer_operands_than_it_reads() {
    let x = [1.0f32; 32];
    let mut y = Vec::with_capacity(32);
    let mut room = UninitSlice::new(y.spare_capacity_mut());
    fill(Isa::best(), &Compiled::<_, 3>(Fma), &[OperandSlice::of(&x)], &mut room);
}
