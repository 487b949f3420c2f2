//! Inner loops compiled twice: for processors with AVX2 and fused multiply-add, and for all others.

/// Defines a function whose body is compiled for both kinds of processor; which one runs is decided when it is called.
///
/// The body sees `FUSED`, a constant for [`multiply_add`]: without the instruction a fused product is a slow library call.
macro_rules! for_this_processor {
    ($(#[$doc:meta])* $visible:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        $visible fn $name($($argument: $kind),*) $(-> $result)? {
            // Always: it is compiled for the instructions of the function that it becomes a part of.
            #[inline(always)]
            fn body<const FUSED: bool>($($argument: $kind),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,fma")]
                fn widest($($argument: $kind),*) $(-> $result)? {
                    body::<true>($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn fast($($argument: $kind),*) $(-> $result)? {
                    body::<true>($($argument),*)
                }
                // Twice as many numbers an instruction, and the same bits: every number is rounded as before.
                if std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                    && std::arch::is_x86_feature_detected!("fma")
                {
                    #[expect(unsafe_code, reason = "a function for a processor that has these instructions")]
                    // SAFETY: the processor was just asked whether it has them.
                    return unsafe { widest($($argument),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    #[expect(unsafe_code, reason = "a function for a processor that has these instructions")]
                    // SAFETY: the processor was just asked whether it has them.
                    return unsafe { fast($($argument),*) };
                }
            }
            body::<{ cfg!(target_arch = "aarch64") }>($($argument),*)
        }
    };
}

pub(crate) use for_this_processor;

/// a b + c, rounded once where the processor can do that.
#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
pub(crate) fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Asks for values that are needed soon to be brought into the first cache.
pub(crate) fn prefetch(values: &[f64]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(8) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "there is no other way to say this to the processor")]
        // SAFETY: it is a hint; nothing is read or written, and no address can be wrong.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}
