//! The steps that the device has made of those whose outcome the host has not asked for.
//!
//! Which of its steps a scaler skips is known to the device alone, and the scalars of a step (bias
//! corrections) depend on how many were made before. So a captured step has a table of several
//! rows, one for each number of steps that may have been made, and a counter in device memory that
//! says which row is true: it grows with each step that is not skipped. The host asks once in
//! [`ROWS`] steps, and has the counter begin again.
//!
//! The row is picked by its two digits, so that a kernel reads eight rows and not all.
//!
//! How it can be wrong: rows that do not begin where the counter did. So the host names the steps
//! that it counts from (`StepScalars::pending`), and an optimiser that knows of others says so.

use crate::own::own;
use elinvar_core::{DType, HostData, HostTensor, Layout, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::lane::Lane;
use elinvar_ops::recording::Place;
use elinvar_ops::update::{Part, Update, update};
use elinvar_tensor::Tensor;

/// Digits of the counter are below this: as many rows, and two more operands, are few enough
/// buffers for every device.
const BASE: usize = 8;
/// Rows of a table.
pub(crate) const ROWS: usize = BASE * BASE;

/// The row of a digit.
#[derive(Clone, Copy, Debug)]
struct Pick;

impl Update<1, 9> for Pick {
    const NAME: &'static str = "step_row";
    #[inline(always)]
    fn lane<L: Lane>(&self, _: [L; 1], [digit, rows @ ..]: [L; 9]) -> [L; 1] {
        let [first, rest @ ..] = rows;
        let mut row = first;
        let mut number = 0.0;
        for next in rest {
            number += 1.0;
            row = L::select(digit.eq(L::lit(number)), next, row);
        }
        [row]
    }
}
elinvar_ops::compile_update! { 1 9 Pick; }

/// The next digits, from whether the step was skipped.
#[derive(Clone, Copy, Debug)]
struct Count;

impl Update<2, 1> for Count {
    const NAME: &'static str = "steps_made";
    #[inline(always)]
    fn lane<L: Lane>(&self, [high, low]: [L; 2], [skipped]: [L; 1]) -> [L; 2] {
        let (zero, one) = (L::lit(0.0), L::lit(1.0));
        let next = low + one;
        let is_full = next.eq(L::lit(BASE as f64));
        let was_made = skipped.eq(zero);
        [
            L::select(was_made, L::select(is_full, high + one, high), high),
            L::select(was_made, L::select(is_full, zero, next), low),
        ]
    }
}
elinvar_ops::compile_update! { 2 1 Count; }

fn zeros<B: Backend>(device: &B::Device, dtype: DType, len: usize) -> Result<Array<B>> {
    // An upload is not recorded: the memory is there before.
    let zeros = HostData::full(dtype, len, Scalar::Int(0))?;
    Array::from_host(device, HostTensor::new(Shape::new(&[len])?, zeros)?)
}

/// The counter: two digits in device memory, the high one first, each f32 of shape \[1\].
#[derive(Debug)]
pub(crate) struct StepsMade<B: Backend>([Array<B>; 2]);

impl<B: Backend> StepsMade<B> {
    /// No steps.
    pub(crate) fn new(device: &B::Device) -> Result<Self> {
        Ok(StepsMade([zeros(device, DType::F32, 1)?, zeros(device, DType::F32, 1)?]))
    }
    pub(crate) fn device(&self) -> &B::Device {
        self.0[0].device()
    }
    /// Prepares it for a captured step, which changes it in place; tells where it is.
    pub(crate) fn settle(&mut self) -> Result<[Place; 2]> {
        let [high, low] = &mut self.0;
        high.make_unique()?;
        low.make_unique()?;
        Ok([Place::of(high)?, Place::of(low)?])
    }
    /// Its digits as they are now.
    pub(crate) fn digits(&self) -> Result<[Array<B>; 2]> {
        let [high, low] = &self.0;
        Ok([high.copy()?, low.copy()?])
    }
    /// Counts a step, in place.
    pub(crate) fn count(&mut self, skip: &Tensor<B>) -> Result<()> {
        let [high, low] = &mut self.0;
        own(high)?;
        own(low)?;
        update(&Count, &mut [Part::new([high, low], [skip.array()])])
    }
    /// Zeros, and what they are copied to for the counter to begin again.
    pub(crate) fn restart(&self) -> Result<Vec<(Array<B>, &Array<B>)>> {
        self.0.iter().map(|to| Ok((zeros(to.device(), DType::F32, 1)?, to))).collect()
    }
}

/// The row of `rows`, [`ROWS`] rows of `len` numbers, that the digits name.
pub(crate) fn pick<B: Backend>(digits: &[Array<B>; 2], rows: &Array<B>, len: usize) -> Result<Array<B>> {
    let mut picked = rows.clone();
    for (digit, len) in digits.iter().zip([BASE * len, len]) {
        let digit = digit.cast(rows.dtype())?;
        let (shape, all) = (Shape::new(&[len])?, BASE * len);
        let part = |i| Ok(picked.with_layout(Layout::strided(shape.clone(), &[1], i * len, all)?));
        let parts = (0..BASE).map(part).collect::<Result<Vec<Array<B>>>>()?;
        let mut next = zeros(rows.device(), rows.dtype(), len)?;
        update(&Pick, &mut [Part::new([&mut next], [&digit].into_iter().chain(&parts))])?;
        picked = next;
    }
    Ok(picked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_reference::{Reference, ReferenceDevice};

    const D: ReferenceDevice = ReferenceDevice;

    #[test]
    fn the_row_is_that_of_the_steps_that_were_made() {
        const LEN: usize = 3;
        let value = |row: usize, i: usize| if i == 1 { f32::NAN } else { -((row * LEN + i) as f32) };
        let all = (0..ROWS).flat_map(|row| (0..LEN).map(move |i| value(row, i)));
        let rows = Array::<Reference>::from_vec(&D, all.collect(), &[ROWS * LEN]).unwrap();
        let mut made = StepsMade::<Reference>::new(&D).unwrap();
        let mut row = 0;
        for step in 0..2 * ROWS {
            for dtype in [DType::F32, DType::F64] {
                let picked = pick(&made.digits().unwrap(), &rows.cast(dtype).unwrap(), LEN).unwrap();
                let got = picked.to_host().unwrap().to_f64_vec();
                let want: Vec<f64> = (0..LEN).map(|i| f64::from(value(row, i))).collect();
                assert_eq!(format!("{got:?}"), format!("{want:?}"), "step {step}");
            }
            let skipped = step % 3 == 1 || row + 1 == ROWS;
            made.count(&Tensor::from_array(Array::scalar(&D, Scalar::Bool(skipped), DType::Bool).unwrap()))
                .unwrap();
            row += usize::from(!skipped);
        }
        assert_eq!(row, ROWS - 1);
    }
}
