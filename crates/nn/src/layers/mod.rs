//! The layers, one file each.
//!
//! A layer is a struct of its weights and settings. What it computes is an op of the catalogue; names, layouts,
//! defaults and starting values of the weights are PyTorch's.

mod activation;
pub(crate) mod attention;
mod batch_norm;
mod conv2d;
mod dropout;
mod embedding;
mod flatten;
mod kv_cache;
mod linear;
mod multihead_attention;
mod norm;
mod pair;
mod pool;
pub(crate) mod positions;
mod rotary;
mod transformer;

pub use activation::{
    ELU, GELU, Hardswish, LeakyReLU, LogSigmoid, LogSoftmax, Mish, ReLU, SELU, SiLU, Sigmoid, Softmax,
    Softplus, Softsign, Tanh,
};
pub use attention::{Attention, AttentionContext, AttentionOptions, attend};
pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d};
pub use conv2d::{Conv2d, Conv2dOptions};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use flatten::Flatten;
pub use kv_cache::KvCache;
pub use linear::Linear;
pub use multihead_attention::{AttentionMasks, MultiheadAttention, MultiheadAttentionOptions};
pub use norm::{GroupNorm, LayerNorm, RMSNorm};
pub use pair::Pair;
pub use pool::{AdaptiveAvgPool2d, AvgPool2d, MaxPool2d};
pub use positions::SinusoidalPositions;
pub use rotary::{Rotary, RotaryScaling, RotaryTable};
pub use transformer::{
    MlpActivation, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerOptions,
};
