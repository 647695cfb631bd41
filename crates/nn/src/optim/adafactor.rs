//! `Adafactor` (Shazeer and Stern 2018): steps scaled by averages of the squared gradient, of which
//! a matrix keeps one per row and one per column.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step, Work, each};
use elinvar_core::{Error, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{div::div, lerp, matmul, maximum, mean, mul, norm, rsqrt, square, where_};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Adafactor, as PyTorch defines it.
///
/// In step t, with w = t^`beta2_decay`: the averages of the rows' and columns' mean squares of g
/// move towards the new ones by w; v = row column / mean(row), or for fewer than two axes the
/// average of g^2 itself. u = g / sqrt(max(v, eps1^2)). The parameter shrinks by 1 - lr *
/// weight_decay, and goes down u * a / max(1, rms(u) / d), where a = max(eps2, rms(parameter)) *
/// min(lr, 1 / sqrt(t)).
///
/// PyTorch's default learning rate is 0.01.
pub type Adafactor<B> = Descent<B, AdafactorRule>;

/// The settings of [`Adafactor`].
#[derive(Clone, Copy, Debug)]
pub struct AdafactorRule {
    beta2_decay: f64,
    eps: [Option<f64>; 2],
    d: f64,
}

/// `eps2`, if nothing else is said.
const EPS2: f64 = 1e-3;

impl Default for AdafactorRule {
    fn default() -> Self {
        AdafactorRule { beta2_decay: -0.8, eps: [None, Some(EPS2)], d: 1.0 }
    }
}

setters! { AdafactorRule:
    /// The exponent of the step number, 0 or less (default -0.8).
    beta2_decay: f64;
    /// `eps1`, the lower bound of a root of an average (default, with `None`: the epsilon of the
    /// parameter's dtype), and `eps2`, that of the parameter's size (default, with `None`: 1e-3).
    eps: [Option<f64>; 2];
    /// The size above which a step is clipped, 1 or more (default 1).
    d: f64;
}

/// sqrt(mean(x^2)), in shape [].
fn rms<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    let n = x.scalar_of((x.shape().numel() as f64).sqrt())?;
    div(&norm(x, 2.0, None, false)?, &n)
}

/// A constant like an array.
trait ScalarOf: Sized {
    fn scalar_of(&self, v: f64) -> Result<Self>;
}

impl<B: Backend> ScalarOf for Array<B> {
    fn scalar_of(&self, v: f64) -> Result<Self> {
        Array::scalar(self.device(), Scalar::Float(v), self.dtype())
    }
}

impl AdafactorRule {
    /// The step of a parameter, to be subtracted, and the new states. `s`: rho and the weight of
    /// the new averages.
    fn direction<B: Backend>(&self, w: &Work<'_, B>) -> Result<(Array<B>, Vec<Array<B>>)> {
        let compute = w.x.dtype().compute();
        let (g, x) = (w.g.cast(compute)?, w.x.cast(compute)?);
        let [_, rho, weight] = &w.scalars[..] else { unreachable!("shrink and two scalars") };
        let eps1 = self.eps[0].unwrap_or(w.x.dtype().epsilon());
        let squares = square(&g)?;
        let (variance, states) = match &w.states[..] {
            [row, column] => {
                let row = lerp(row, &mean(&squares, Some(&[-1]), true)?, weight)?;
                let column = lerp(column, &mean(&squares, Some(&[-2]), true)?, weight)?;
                let size = maximum(&mean(&row, Some(&[-2]), true)?, &g.scalar_of(eps1)?)?;
                (div(&matmul(&row, &column)?, &size)?, vec![row, column])
            }
            [variance] => {
                let variance = lerp(variance, &squares, weight)?;
                (variance.clone(), vec![variance])
            }
            _ => unreachable!("one state or two"),
        };
        let update = mul(&rsqrt(&maximum(&variance, &g.scalar_of(eps1 * eps1)?)?)?, &g)?;
        let eps2 = self.eps[1].unwrap_or(EPS2);
        let alpha = mul(&maximum(&rms(&x)?, &g.scalar_of(eps2)?)?, rho)?;
        let clip = maximum(&div(&rms(&update)?, &g.scalar_of(self.d)?)?, &g.scalar_of(1.0)?)?;
        Ok((mul(&update, &div(&alpha, &clip)?)?, states))
    }
}

impl Rule for AdafactorRule {
    const NAME: &'static str = "adafactor";

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("beta2_decay", Setting::Number(&mut self.beta2_decay, Range::Finite)),
            ("eps", Setting::Optional(&mut self.eps, Range::NotNegative)),
            ("d", Setting::Number(&mut self.d, Range::Finite)),
        ]
    }
    fn conflict(&self) -> Option<String> {
        (self.beta2_decay > 0.0 || self.d < 1.0).then(|| {
            format!(
                "beta2_decay {} and d {}; they should be 0 or less, and 1 or more",
                self.beta2_decay, self.d
            )
        })
    }
    fn decoupled(&self) -> bool {
        true
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("variance", 0.0)]
    }
    fn keeps_for(&self, shape: &Shape) -> Vec<(&'static str, f64)> {
        if shape.rank() > 1 { vec![("row_var", 0.0), ("col_var", 0.0)] } else { self.keeps() }
    }
    fn state_shape(&self, key: &str, shape: &Shape) -> Result<Shape> {
        let gone = match key {
            "row_var" => shape.rank() - 1,
            "col_var" => shape.rank() - 2,
            _ => return Ok(shape.clone()),
        };
        Ok(shape.without(&[gone], true))
    }
    /// min(lr, 1 / sqrt(t)), and t^beta2_decay by the library's own power.
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        let t = at.step as f64;
        vec![at.lr.min(1.0 / t.sqrt()), Lane::pow(t, self.beta2_decay)]
    }
    /// `g` is the step here.
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, _: &mut [L], _: &[L]) -> L {
        x - g
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<1, 4>()
    }
    fn run<B: Backend>(step: &Step<Self>, all: &mut [Work<'_, B>]) -> Result<()> {
        // All of this may fail, so nothing is written before all of it is computed.
        let mut new = Vec::with_capacity(all.len());
        for w in &*all {
            let made = step.rule.direction(w).and_then(|(direction, mut states)| {
                if let Some(skip) = &w.skip {
                    for (state, old) in states.iter_mut().zip(&w.states) {
                        *state = where_(skip, old, state)?;
                    }
                }
                Ok((direction, states))
            });
            new.push(made.map_err(|e: Error| e.at(w.name))?);
        }
        // The states are not operands of the formula, whose gradient is the step.
        let mut kept = Vec::with_capacity(all.len());
        for (w, (direction, states)) in all.iter_mut().zip(new) {
            w.g = direction;
            kept.push((std::mem::take(&mut w.states), states));
        }
        let done = each(&*Self::formula(*step), all);
        for (w, (old, new)) in all.iter_mut().zip(kept) {
            w.states = if done.is_ok() { new } else { old };
        }
        done
    }
}
