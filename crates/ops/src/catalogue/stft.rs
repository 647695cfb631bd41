//! stft: the short-time Fourier transform, of windows of a signal.

use super::fourier::{Norm, check_float};
use super::pad::{Mode, pad};
use super::{fft, mul, reshape, rfft, stack, transpose, unfold_dim};
use crate::prelude::*;

/// The windows of a short-time transform, and what is given of each; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frames {
    /// Elements that are transformed at a time.
    pub n_fft: usize,
    /// Distance of the windows.
    pub hop_length: usize,
    /// Elements of the window function, at most `n_fft`; zeros are added on both sides.
    pub win_length: usize,
    /// Does window t have its centre at element t * hop_length? (The signal is padded for that.)
    pub center: bool,
    /// Are results divided by sqrt(n_fft)?
    pub normalized: bool,
    /// Only the first n_fft / 2 + 1 frequencies; the others are theirs conjugated.
    pub onesided: bool,
}

impl Frames {
    /// Windows of `n_fft` elements, a quarter of that apart, centred, one side of the spectrum.
    pub fn new(n_fft: usize) -> Frames {
        let hop_length = n_fft / 4;
        Frames { n_fft, hop_length, win_length: n_fft, center: true, normalized: false, onesided: true }
    }

    /// How many frequencies there are.
    pub(super) fn frequencies(&self) -> usize {
        if self.onesided { self.n_fft / 2 + 1 } else { self.n_fft }
    }
    pub(super) fn norm(&self) -> Norm {
        if self.normalized { Norm::Ortho } else { Norm::Backward }
    }

    /// # Errors
    /// `InvalidArgument` if a length is 0 or the window is longer than the transform.
    pub(super) fn check(&self, op: &str) -> Result<()> {
        if self.n_fft > 0 && self.hop_length > 0 && (1..=self.n_fft).contains(&self.win_length) {
            return Ok(());
        }
        Err(Error::argument(format!(
            "{op}: n_fft {}, hop_length {}, win_length {}; all must be above 0, and win_length at most n_fft",
            self.n_fft, self.hop_length, self.win_length
        )))
    }

    /// The window function with zeros on both sides, \[n_fft\]; `None` for ones alone.
    pub(super) fn window<V: Value>(&self, op: &str, like: &V, window: Option<&V>) -> Result<Option<V>> {
        let window = match window {
            Some(w) if w.shape()[..] != [self.win_length] => {
                return Err(Error::shape(format!(
                    "{op}: window {}; it must have one axis of {} elements",
                    w.shape(),
                    self.win_length
                )));
            }
            Some(w) => w.clone(),
            None if self.win_length == self.n_fft => return Ok(None),
            None => {
                let ones = Array::full(
                    like.device(),
                    &Shape::new(&[self.win_length])?,
                    Scalar::Int(1),
                    like.dtype(),
                )?;
                V::from_array(ones)
            }
        };
        let left = (self.n_fft - self.win_length) / 2;
        let right = self.n_fft - self.win_length - left;
        pad(&window, &[left as isize, right as isize], Mode::Constant(Scalar::Int(0))).map(Some)
    }

    /// The attributes n_fft, hop_length, win_length, center, normalized and onesided.
    pub(super) fn of<V: Value>(a: &Args<V>) -> Result<Frames> {
        let plain = Frames::new(a.size("n_fft")?);
        let flag = |name, plain| a.maybe(name, Args::bool).map(|v| v.unwrap_or(plain));
        Ok(Frames {
            hop_length: a.maybe("hop_length", Args::size)?.unwrap_or(plain.hop_length),
            win_length: a.maybe("win_length", Args::size)?.unwrap_or(plain.win_length),
            center: flag("center", true)?,
            normalized: flag("normalized", false)?,
            onesided: flag("onesided", true)?,
            ..plain
        })
    }
}

/// The transforms of the windows of the signal `x` \[l\] or [n, l], times the window function
/// `window` \[win_length\] (ones if `None`): [frequencies, windows, 2] or
/// [n, frequencies, windows, 2], pairs (re, im) along the last axis.
///
/// `pad_mode`: how a centred signal continues beyond its ends.
///
/// # Errors
/// `ShapeMismatch` if x has no or more than two axes, or the window another length;
/// `InvalidArgument` if a length is 0, the window is longer than the transform, or the signal is
/// shorter; `DTypeMismatch`; `OutOfMemory`.
pub fn stft<V: Value>(x: &V, window: Option<&V>, frames: &Frames, pad_mode: Mode) -> Result<V> {
    autocast!("stft", x; window => stft(x, window, frames, pad_mode));
    check_float("stft", x)?;
    frames.check("stft")?;
    let batch = match x.shape()[..] {
        [_] => None,
        [n, _] => Some(n),
        _ => return Err(Error::shape(format!("stft: signal {}; it must be [l] or [n, l]", x.shape()))),
    };
    let length = x.shape()[x.shape().rank() - 1];
    let signal = reshape::to_shape(x, &Shape::new(&[batch.unwrap_or(1), length])?)?;
    let half = (frames.n_fft / 2) as isize;
    let signal = if frames.center { pad(&signal, &[half, half], pad_mode)? } else { signal };
    if signal.shape()[1] < frames.n_fft {
        return Err(Error::argument(format!(
            "stft: a signal of {length} elements is shorter than n_fft {}",
            frames.n_fft
        )));
    }
    let windows = unfold_dim(&signal, 1, frames.n_fft, frames.hop_length)?;
    let windows = match frames.window("stft", x, window)? {
        Some(w) => mul(&windows, &w)?,
        None => windows,
    };
    let y = if frames.onesided {
        rfft(&windows, None, -1, frames.norm())?
    } else {
        let none = windows.full_like(0.0)?;
        fft(&stack(&[&windows, &none], -1)?, None, -1, frames.norm())?
    };
    let y = transpose(&y, 1, 2)?;
    match batch {
        Some(_) => Ok(y),
        None => reshape::to_shape(&y, &y.shape().without(&[0], false)),
    }
}

/// By name: operands x and window (ones if missing); attributes n_fft, hop_length, win_length,
/// center, pad_mode (reflect), normalized and onesided.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let mode = match a.maybe("pad_mode", Args::str)? {
        None | Some("reflect") => Mode::Reflect,
        Some("constant") => Mode::Constant(Scalar::Int(0)),
        Some("replicate") => Mode::Replicate,
        Some("circular") => Mode::Circular,
        Some(other) => {
            return Err(Error::argument(format!(
                "stft: pad_mode {other}; there are constant, reflect, replicate and circular"
            )));
        }
    };
    Ok(vec![stft(a.input("x")?, a.optional("window"), &Frames::of(a)?, mode)?])
}
