//! Products beside the reference's, for the kernels that do them in an order of their own.

use crate::backend::run_work;
use elinvar_core::philox::{Stream, unit_f32};
use elinvar_core::{DType, HostData, Layout, Precision, Shape};
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem};
use elinvar_gpu_kernels::launch::Work;
use elinvar_kernel::interp::Memory;
use elinvar_ops::View;
use elinvar_ops::backend::Compute;
use elinvar_ops::backend::{AddBias, CompiledEpilogue};
use elinvar_ops::map::Compiled;
use elinvar_reference::{Reference, ReferenceDevice};

pub fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("small"))
}

/// Of f64, numbers that use all their bits, and where those of f32 are so small that their products
/// vanish, as small for f64.
pub fn host(dtype: DType, x: impl Iterator<Item = f32>) -> HostData {
    match dtype {
        DType::F16 => HostData::F16(x.map(half::f16::from_f32).collect()),
        DType::BF16 => HostData::BF16(x.map(half::bf16::from_f32).collect()),
        DType::F32 => HostData::F32(x.collect()),
        DType::F64 => {
            let wide = |x: f32| f64::from(x) * (1.0 + 1e-10) * if x.abs() < 1e-20 { 1e-150 } else { 1.0 };
            HostData::F64(x.map(wide).collect())
        }
        other => panic!("{other}"),
    }
}

/// Matrices side by side in memory whose lines are as far apart as said: of rows by columns, or
/// lying the other way.
pub fn matrix(lies: bool, [b, rows, columns]: [usize; 3], room: usize) -> Layout {
    if lies {
        layout(&[b, rows, columns + room]).slice(2, room, columns, 1)
    } else {
        layout(&[b, columns, rows + room]).slice(2, room, rows, 1).transpose(1, 2)
    }
}

/// A product with a sum beside it.
pub struct Case {
    /// b, m, k, n.
    pub sizes: [usize; 4],
    /// Which factors are along their terms.
    pub along: [bool; 2],
    /// Elements before each line.
    pub room: usize,
    /// Has each batch a right factor of its own?
    pub own: bool,
}

impl Case {
    pub fn layouts(&self) -> [Layout; 3] {
        let [b, m, k, n] = self.sizes;
        let w = matrix(!self.along[1], [if self.own { b } else { 1 }, k, n], self.room);
        let w = if self.own {
            w
        } else {
            w.broadcast_to(&Shape::new(&[b, k, n]).expect("small"), "w").expect("one plane")
        };
        [matrix(self.along[0], [b, m, k], self.room), w, layout(&[b, m, n])]
    }
    pub fn numbers(&self, dtype: DType, number: &dyn Fn(usize, usize) -> f32) -> [HostData; 3] {
        let all = self.layouts();
        [0, 1, 2].map(|of| {
            let l: &Layout = &all[of];
            let len = 1
                + l.offset()
                + l.shape()
                    .iter()
                    .zip(l.strides())
                    .map(|(n, s)| n.saturating_sub(1) * *s as usize)
                    .sum::<usize>();
            host(dtype, (0..len).map(|i| number(of, i)))
        })
    }
    /// What a kernel makes of it.
    pub fn run(
        &self,
        dtype: DType,
        kernel: &dyn Fn(&GemmProblem<'static, '_>) -> Option<Work<'static>>,
        number: &dyn Fn(usize, usize) -> f32,
    ) -> HostData {
        const EPILOGUE: CatalogueEpilogue<'static> = CatalogueEpilogue(Some(&Compiled::<_, 1>(AddBias)));
        let [x, w, bias] = self.layouts();
        let extra = [(&bias, dtype)];
        let p = GemmProblem::new(&EPILOGUE, dtype, &x, &w, &extra);
        let work = kernel(&p).expect("it can be done so");
        let mut buffers: Vec<Memory> = self.numbers(dtype, number).iter().map(Memory::from_host).collect();
        buffers.push(Memory::of(dtype, p.len()));
        run_work(&work, &mut buffers);
        buffers[3].to_host().expect("it has a dtype")
    }
    /// What is right where no sum is rounded.
    pub fn want(&self, dtype: DType, number: &dyn Fn(usize, usize) -> f32) -> HostData {
        let (layouts, numbers) = (self.layouts(), self.numbers(dtype, number));
        let [x, w, bias] = [0, 1, 2].map(|i| View { buffer: &numbers[i], layout: &layouts[i], dtype });
        Reference::contract(
            &ReferenceDevice,
            Precision::Exact,
            x,
            w,
            Some(AddBias::object(&Compiled(AddBias))),
            &[bias],
        )
        .expect("it runs")
    }
}

/// Whole numbers whose products and sums are exact: of x, of w or of the bias.
pub fn whole(of: usize, i: usize) -> f32 {
    let i = i + 3 * of;
    ((i * 7 + i / 11) % 9) as f32 - 4.0
}

/// Numbers whose sums are rounded, and sums that underflow to -0: what follows the last term, and
/// makes it +0, is the same for all tiles.
pub fn uneven(of: usize, i: usize) -> f32 {
    ((i * 37 + of) % 101) as f32 * 0.0173 - 0.9
}
/// See [`uneven`].
pub fn tiny(of: usize, _: usize) -> f32 {
    [1e-30, -1e-30, -0.0][of]
}

/// Numbers that use all their bits, with zeros of both signs, products that underflow, and a row
/// that is not a number here and there.
pub fn noise(of: usize, i: usize) -> f32 {
    let word = Stream { seed: 11, stream: of as u64 }.word(i as u64);
    match word % 61 {
        0 => -0.0,
        1 => 0.0,
        2 => 1e-30,
        3 => -1e-30,
        _ if of == 0 && i % 2011 == 1007 => f32::NAN,
        _ => unit_f32(word) * 2.0 - 1.0,
    }
}

/// Zeros have signs.
pub fn bits(x: &HostData) -> Vec<u64> {
    Memory::from_host(x).cells
}
