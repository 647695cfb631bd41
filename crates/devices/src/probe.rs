//! Checks whether a device's arithmetic is exact: a few sums that detect known deviations, and a
//! few formulas, because a driver's compiler may translate each instruction correctly and a
//! sequence of them wrongly.

use elinvar_core::Result;
use elinvar_core::ready::ready;
use elinvar_ops::array::Array;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue::{abs, add, atan2, div, exp, fma, log, mul, sign, sin, sqrt, sub, tanh};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Tensor;
use std::fmt;

/// How a device's results compare with the reference's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// The same bits.
    Exact,
    /// The same bits, except that the device flushes subnormal numbers to zero.
    ExactButSubnormals,
    /// Other bits; the check that failed.
    Approximate(String),
}

impl fmt::Display for Exactness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exactness::Exact => f.write_str("exact"),
            Exactness::ExactButSubnormals => f.write_str("exact but for subnormals"),
            Exactness::Approximate(why) => write!(f, "approximate ({why})"),
        }
    }
}

/// How results come to the host.
#[derive(Clone, Copy)]
enum Reads {
    /// They are waited for.
    Waited,
    /// As futures.
    Awaited,
}

impl Reads {
    async fn of<B: Backend>(self, y: Array<B>) -> Result<Vec<f32>> {
        let host = match self {
            Reads::Waited => y.to_host()?,
            Reads::Awaited => Tensor::from_array(y).to_host_async().await?,
        };
        Ok(host.as_slice::<f32>()?.to_vec())
    }
}

/// Runs the probe on a device.
///
/// # Errors
/// What the device reports.
pub fn probe<B: Backend>(device: &B::Device) -> Result<Exactness> {
    ready(probed::<B>(device, Reads::Waited))
}

/// [`probe`] that does not block.
///
/// # Errors
/// What the device reports.
#[cfg_attr(not(feature = "webgpu"), expect(dead_code, reason = "elsewhere, a program may wait"))]
pub async fn probe_async<B: Backend>(device: &B::Device) -> Result<Exactness> {
    probed::<B>(device, Reads::Awaited).await
}

async fn probed<B: Backend>(device: &B::Device, reads: Reads) -> Result<Exactness> {
    Ok(match rules::<B>(device, reads).await? {
        approximate @ Exactness::Approximate(_) => approximate,
        exact => wrong_formula::<B>(device, reads).await?.map_or(exact, Exactness::Approximate),
    })
}

/// The part of the probe that checks sums and products. It is sufficient for the processor, whose
/// formulas are compiled and tested before the program is shipped.
///
/// # Errors
/// What the device reports.
pub(crate) fn arithmetic<B: Backend>(device: &B::Device) -> Result<Exactness> {
    ready(rules::<B>(device, Reads::Waited))
}

async fn rules<B: Backend>(device: &B::Device, reads: Reads) -> Result<Exactness> {
    let at = |v: f32| Array::<B>::from_vec(device, vec![v], &[1]);
    let is = async |y: Array<B>, want: f32| -> Result<bool> {
        Ok(reads.of(y).await?[0].to_bits() == want.to_bits())
    };
    let eps = f32::EPSILON;
    let (x, tiny) = (1.0 + 2048.0 * eps, f32::MIN_POSITIVE);
    // x * x = 1 + 2^-11 + 2^-24, and the last term survives only in a fused operation.
    let squared = x * x;
    let rules: [(&str, bool); 7] = [
        ("fma is not fused", is(fma(&at(x)?, &at(x)?, &at(-squared)?)?, x.mul_add(x, -squared)).await?),
        ("a product and a sum are contracted", is(sub(&mul(&at(x)?, &at(x)?)?, &at(squared)?)?, 0.0).await?),
        ("sums do not round to nearest even", is(add(&at(1.0)?, &at(eps / 2.0)?)?, 1.0).await?),
        (
            "sums do not round to nearest even",
            is(add(&at(1.0 + eps)?, &at(eps / 2.0)?)?, 1.0 + 2.0 * eps).await?,
        ),
        ("quotients are not correctly rounded", is(div(&at(1.0)?, &at(3.0)?)?, 1.0 / 3.0).await?),
        (
            "quotients are not correctly rounded",
            is(div(&at(5.0)?, &at(1.0 + eps)?)?, 5.0 / (1.0 + eps)).await?,
        ),
        ("square roots are not correctly rounded", is(sqrt(&at(2.0)?)?, std::f32::consts::SQRT_2).await?),
    ];
    if let Some((why, _)) = rules.iter().find(|(_, ok)| !ok) {
        return Ok(Exactness::Approximate((*why).into()));
    }
    // A compiler may keep subnormals in sums and flush them in comparisons.
    let kept = is(mul(&at(tiny)?, &at(0.5)?)?, tiny / 2.0).await?
        && is(add(&at(tiny / 2.0)?, &at(tiny / 4.0)?)?, tiny * 0.75).await?
        && is(abs(&at(-tiny / 2.0)?)?, tiny / 2.0).await?
        && is(sign(&at(tiny / 2.0)?)?, 1.0).await?
        && is(fma(&at(tiny / 4.0)?, &at(0.5)?, &at(tiny / 4.0)?)?, tiny * 0.375).await?
        && is(sqrt(&at(tiny / 4.0)?)?, tiny.sqrt() / 2.0).await?;
    Ok(if kept { Exactness::Exact } else { Exactness::ExactButSubnormals })
}

/// Results of some formulas on one element, on several, and on several at an offset of 1: each may
/// be a different kernel.
async fn formulas<B: Backend>(device: &B::Device, reads: Reads) -> Result<Vec<(&'static str, Vec<f32>)>> {
    // No intermediate result is subnormal.
    let several = [0.266f32, -1.7, 3.5, -0.04, 0.9];
    let mut all = Vec::new();
    let whole = Array::<B>::from_vec(device, several.to_vec(), &[several.len()])?;
    for (first, n) in [(0, 1), (0, several.len()), (1, several.len() - 1)] {
        let x = whole.with_layout(whole.layout().slice(0, first, n, 1));
        let y = mul(&x, &x)?;
        let made = [
            ("exp", exp(&x)?),
            ("log", log(&y)?),
            ("sin", sin(&x)?),
            ("tanh", tanh(&x)?),
            ("atan2", atan2(&x, &y)?),
        ];
        for (name, y) in made {
            all.push((name, reads.of(y).await?));
        }
    }
    Ok(all)
}

/// A description of a formula whose bits differ from the reference's.
async fn wrong_formula<B: Backend>(device: &B::Device, reads: Reads) -> Result<Option<String>> {
    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let got = formulas::<B>(device, reads).await?;
    let want = formulas::<Reference>(&ReferenceDevice, Reads::Waited).await?;
    let wrong = got.iter().zip(&want).find(|((_, a), (_, b))| bits(a) != bits(b));
    Ok(wrong.map(|((name, _), _)| format!("its compiler gets {name} wrong")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_keeps_the_contract() {
        assert_eq!(probe::<Reference>(&ReferenceDevice).unwrap(), Exactness::Exact);
    }
}
