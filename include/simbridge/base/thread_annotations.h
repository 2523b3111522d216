#pragma once
// What: names for Clang's thread-safety analysis (preset lint); nothing under GCC.
#if defined(__clang__)
#define SB_TSA(x) __attribute__((x))
#else
#define SB_TSA(x)
#endif
#define SB_CAPABILITY(name) SB_TSA(capability(name))
#define SB_SCOPED_CAPABILITY SB_TSA(scoped_lockable)
#define SB_GUARDED_BY(x) SB_TSA(guarded_by(x))
#define SB_PT_GUARDED_BY(x) SB_TSA(pt_guarded_by(x))
#define SB_REQUIRES(...) SB_TSA(requires_capability(__VA_ARGS__))
#define SB_EXCLUDES(...) SB_TSA(locks_excluded(__VA_ARGS__))
#define SB_ACQUIRE(...) SB_TSA(acquire_capability(__VA_ARGS__))
#define SB_TRY_ACQUIRE(...) SB_TSA(try_acquire_capability(__VA_ARGS__))
#define SB_RELEASE(...) SB_TSA(release_capability(__VA_ARGS__))
#define SB_ASSERT_CAPABILITY(x) SB_TSA(assert_capability(x))
#define SB_NO_ANALYSIS SB_TSA(no_thread_safety_analysis)
