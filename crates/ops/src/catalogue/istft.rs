//! istft: the signal of which windows have given transforms, by least squares (Griffin and Lim
//! 1984).

use super::fourier::check_pairs;
use super::pad::{Mode, pad};
use super::stft::Frames;
use super::unfold::Patches;
use super::{div, expand, fold, irfft, mul, narrow, reshape, square, transpose};
use crate::prelude::*;

/// The signal \[l\] or [n, l] whose short-time transform with these frames is `x` [frequencies,
/// windows, 2] or [n, frequencies, windows, 2]: the windows are transformed back, multiplied by the
/// window function, added up, and divided by the sum of its squares. Of spectra of two sides only
/// the first n_fft / 2 + 1 frequencies are read.
///
/// `length`: of the signal, which is cut or filled with zeros. Where no window is, or only zeros of
/// the window function, the result is NaN; PyTorch refuses such windows.
///
/// # Errors
/// `ShapeMismatch` if x does not have these frequencies, or the window another length;
/// `InvalidArgument` if a length is 0, or windows are further apart than they are long;
/// `DTypeMismatch`; `OutOfMemory`.
pub fn istft<V: Value>(x: &V, window: Option<&V>, frames: &Frames, length: Option<usize>) -> Result<V> {
    autocast!("istft", x; window => istft(x, window, frames, length));
    check_pairs("istft", x)?;
    frames.check("istft")?;
    let n_fft = frames.n_fft;
    if frames.hop_length > frames.win_length {
        return Err(Error::argument(format!(
            "istft: windows of {} elements, {} apart; some elements would be in none",
            frames.win_length, frames.hop_length
        )));
    }
    let (batch, frequencies, windows) = match x.shape()[..] {
        [f, t, _] => (None, f, t),
        [n, f, t, _] => (Some(n), f, t),
        _ => (None, 0, 0),
    };
    if frequencies != frames.frequencies() || windows == 0 {
        return Err(Error::shape(format!(
            "istft: operand {}; it must be [{f}, windows, 2] or [n, {f}, windows, 2], with a window at least",
            x.shape(),
            f = frames.frequencies()
        )));
    }
    let rows = batch.unwrap_or(1);
    let spectra = reshape::to_shape(x, &Shape::new(&[rows, frequencies, windows, 2])?)?;
    let spectra = transpose(&spectra, 1, 2)?;
    // The other half is this one conjugated, or the signal would not be real.
    let half = narrow(&spectra, 2, 0, n_fft / 2 + 1)?;
    let parts = irfft(&half, Some(n_fft), -1, frames.norm())?;
    let window = match frames.window("istft", &parts, window)? {
        Some(w) => w,
        None => V::from_array(Array::full(
            x.device(),
            &Shape::new(&[n_fft])?,
            Scalar::Int(1),
            x.dtype(),
        )?),
    };
    let total = n_fft + frames.hop_length * (windows - 1);
    let added = |v: &V, rows: usize| -> Result<V> {
        let patches = Patches {
            kernel: [1, n_fft],
            dilation: [1, 1],
            padding: [0, 0],
            stride: [1, frames.hop_length],
        };
        let image = fold(&transpose(v, 1, 2)?, [1, total], &patches)?;
        reshape::to_shape(&image, &Shape::new(&[rows, total])?)
    };
    let signal = added(&mul(&parts, &window)?, rows)?;
    let squares = expand(&square(&window)?, &Shape::new(&[1, windows, n_fft])?)?;
    let envelope = added(&squares, 1)?;
    let start = if frames.center { n_fft / 2 } else { 0 };
    let end = match length {
        Some(n) => start.saturating_add(n).min(total),
        None => total - start,
    };
    if end < start {
        return Err(Error::argument(format!("istft: {windows} centred windows of {n_fft} hold no signal")));
    }
    let inside = |v: &V| narrow(v, 1, start as isize, end - start);
    let y = div(&inside(&signal)?, &inside(&envelope)?)?;
    let missing = length.unwrap_or(0).saturating_sub(end - start);
    let y = if missing > 0 {
        let missing = isize::try_from(missing)
            .map_err(|_| Error::argument(format!("istft: a length of {missing} more elements")))?;
        pad(&y, &[0, missing], Mode::Constant(Scalar::Int(0)))?
    } else {
        y
    };
    match batch {
        Some(_) => Ok(y),
        None => reshape::to_shape(&y, &y.shape().without(&[0], false)),
    }
}

/// By name: operands x and window (ones if missing); attributes n_fft, hop_length, win_length,
/// center, normalized, onesided and length.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let length = a.maybe("length", Args::size)?;
    Ok(vec![istft(a.input("x")?, a.optional("window"), &Frames::of(a)?, length)?])
}
