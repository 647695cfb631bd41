//! The list of all ops: one file and one line each.
//!
//! A file `NAME.rs` holds the op's formula and gradient, the function `NAME` that users and other
//! ops call, and `call`, which runs it by name from [`Args`].

use crate::args::Args;
use crate::value::Value;
use elinvar_core::{Error, Result};

mod batch_moments;
mod classes;
pub mod comparison;
pub mod conv;
pub mod fourier;
mod lattice;
pub mod normalize;
pub mod pool;
pub mod range;
mod recurrence;
pub mod recurrent;
pub mod reduction;
pub mod view;

macro_rules! catalogue {
    ($($(#[$doc:meta])* $module:ident $(as $name:literal)?,)*) => {
        $($(#[$doc])* pub mod $module; pub use $module::$module;)*

        /// The names of all ops, in the order of the list.
        pub const NAMES: &[&str] = &[$(catalogue!(@name $module $($name)?)),*];

        /// Runs the op of this name.
        ///
        /// # Errors
        /// `Unsupported` if there is no such op; else those of the op.
        pub fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
            match a.op.as_str() {
                $(catalogue!(@name $module $($name)?) => $module::call(a),)*
                other => Err(Error::unsupported(format!("there is no op called {other}"))),
            }
        }
    };
    (@name $module:ident $name:literal) => { $name };
    (@name $module:ident) => { stringify!($module) };
}

catalogue! {
    // Unary
    abs,
    exp,
    neg,
    sign,
    exp2,
    expm1,
    log,
    log2,
    log10,
    log1p,
    sqrt,
    rsqrt,
    reciprocal,
    square,
    sin,
    cos,
    tan,
    asin,
    acos,
    atan,
    sinh,
    cosh,
    tanh,
    erf,
    sigmoid,
    log_sigmoid,
    logit,
    relu,
    relu6,
    leaky_relu,
    elu,
    celu,
    selu,
    gelu,
    silu,
    mish,
    softplus,
    softsign,
    hardtanh,
    hardswish,
    hardsigmoid,
    softshrink,
    hardshrink,
    tanhshrink,
    threshold,
    floor,
    ceil,
    round,
    trunc,
    frac,
    isnan,
    isinf,
    isfinite,
    logical_not,
    bitwise_not,
    // Binary
    add,
    sub,
    mul,
    div,
    floor_divide,
    fmod,
    remainder,
    pow,
    maximum,
    minimum,
    atan2,
    copysign,
    eq,
    ne,
    lt,
    le,
    gt,
    ge,
    logical_and,
    logical_or,
    logical_xor,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right,
    // Select, blend, cast
    where_ as "where",
    clamp,
    lerp,
    masked_fill,
    addcmul,
    fma,
    cast,
    // Reductions
    sum,
    mean,
    prod,
    amax,
    amin,
    max,
    min,
    argmax,
    argmin,
    median,
    var,
    std_ as "std",
    logsumexp,
    norm,
    any,
    all,
    count_nonzero,
    cumsum,
    cumprod,
    softmax,
    log_softmax,
    // Linear algebra
    matmul,
    bmm,
    addmm,
    baddbmm,
    outer,
    dot,
    kron,
    tensordot,
    einsum,
    linear,
    // Fourier transforms
    fft,
    ifft,
    rfft,
    irfft,
    fft2,
    ifft2,
    rfft2,
    irfft2,
    fftn,
    ifftn,
    rfftn,
    irfftn,
    stft,
    istft,
    // Movement
    reshape,
    transpose,
    permute,
    expand,
    repeat,
    tile,
    slice,
    slice_assign,
    select,
    narrow,
    flip,
    roll,
    concat,
    stack,
    split,
    chunk,
    unbind,
    pad,
    squeeze,
    unsqueeze,
    flatten,
    tril,
    triu,
    diagonal,
    diag,
    trace,
    unfold_dim,
    unfold,
    fold,
    movedim,
    meshgrid,
    repeat_interleave,
    // By index
    gather,
    scatter,
    scatter_add,
    index_select,
    index_add,
    index_fill,
    take_along_dim,
    masked_select,
    nonzero,
    one_hot,
    sort,
    argsort,
    topk,
    unique,
    searchsorted,
    bincount,
    embedding,
    // Layers
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    interpolate,
    layer_norm,
    rms_norm,
    group_norm,
    instance_norm,
    batch_norm,
    scaled_dot_product_attention,
    multi_head_attention,
    rnn_tanh,
    lstm,
    gru,
    dropout,
    // Losses
    mse_loss,
    l1_loss,
    smooth_l1_loss,
    huber_loss,
    hinge_embedding_loss,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    nll_loss,
    cross_entropy,
    kl_div,
    cosine_similarity,
    triplet_margin_loss,
    ctc_loss,
}
