//! Memory that a step changes in place.

use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::recording;

/// Memory of its own for what a step changes. A step that is recorded cannot move it.
pub(crate) fn own<B: Backend>(x: &mut Array<B>) -> Result<()> {
    if recording::is_recording() && !x.is_own() {
        return Err(Error::unsupported(
            "a captured step changes a tensor in place that something else holds, such as a value of a \
             parameter that the objective keeps",
        ));
    }
    x.own()
}
