//! The update of a step: one formula of the parameter and its states.
//!
//! An optimiser is a scalar function with a number of outputs and inputs. Only [`each`] decides how
//! it is run on a device: as one in-place update of all parameters.

use super::Rule;
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::lane::Lane;
use elinvar_ops::update::{Part, Update, UpdateObject, Updating, update_object};

/// The operands of a parameter's step.
#[derive(Debug)]
pub struct Work<'a, B: Backend> {
    /// The parameter's name.
    pub name: &'a str,
    /// The parameter; afterwards, its new value.
    pub x: &'a mut Array<B>,
    /// The gradient.
    pub g: Array<B>,
    /// The states in the order of [`Rule::keeps`], in the compute dtype of the parameter;
    /// afterwards, the new ones.
    pub states: Vec<Array<B>>,
    /// The scalars of this step, of shape []: shrink, then those of [`Rule::scalars`]. A shrink of
    /// NaN: the step is skipped.
    pub scalars: Vec<Array<B>>,
    /// One bool of shape []: is the step skipped? [`Step`] looks at `scalars` instead.
    pub skip: Option<Array<B>>,
}

/// Runs an update of (parameter, states..) by (gradient, shrink, scalars..) on all parameters at
/// once.
///
/// # Errors
/// Those of [`update_object`]. After an error no parameter and no state has changed.
///
/// # Panics
/// If a parameter's numbers of states or scalars are not those of the update.
pub fn each<B: Backend>(u: &dyn UpdateObject, all: &mut [Work<'_, B>]) -> Result<()> {
    let mut parts: Vec<Part<'_, B>> = Vec::with_capacity(all.len());
    for w in all {
        parts.push(Part::new(
            [&mut *w.x].into_iter().chain(&mut w.states),
            [&w.g].into_iter().chain(&w.scalars),
        ));
    }
    update_object(u, &mut parts)
}

/// A rule's formula with the common part of all rules: the direction, and weight decay that is
/// added to the gradient.
#[derive(Clone, Copy, Debug)]
pub struct Step<R> {
    /// The rule.
    pub rule: R,
    /// Maximise instead of minimise.
    pub maximize: bool,
    /// Weight decay: the factor of the parameter that is added to the gradient.
    pub decay: f64,
}

impl<O: Rule, const M: usize, const R: usize> Update<M, R> for Step<O> {
    const NAME: &'static str = O::NAME;
    #[inline(always)]
    fn lane<L: Lane>(&self, mut x: [L; M], read: [L; R]) -> [L; M] {
        let before = x;
        let g = if self.maximize { -read[0] } else { read[0] };
        let g = if self.decay == 0.0 { g } else { L::lit(self.decay).fma(x[0], g) };
        let (param, states) = x.split_at_mut(1);
        param[0] = self.rule.lane(param[0] * read[1], g, states, &read[2..]);
        // A skipped step has NaN here. Everything keeps its bits then, whatever the gradient is.
        let is_made = read[1].eq(read[1]);
        x.iter_mut().zip(before).for_each(|(new, old)| *new = L::select(is_made, *new, old));
        x
    }
}

impl<O: Rule> Step<O> {
    /// The formula of a rule that changes `M` numbers (the parameter and its states) and reads `R`
    /// (gradient, shrink and scalars), as an object.
    pub fn formula<const M: usize, const R: usize>(self) -> Box<dyn UpdateObject> {
        Box::new(Updating::<_, M, R>(self))
    }
}
