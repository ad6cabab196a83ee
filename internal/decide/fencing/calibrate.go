package fencing

import (
	"fmt"
	"slices"
	"time"
)

// The delay between two hosts that fence each other. The second one by name waits
// before it fences the first, so that the first one's fence cuts its power by then.
const (
	DefaultDelay = 20 * time.Second
	MinimumDelay = 3 * time.Second
	// MaximumDelay leaves Pacemaker enough of its stonith-timeout to fence
	// (Longest).
	MaximumDelay = 60 * time.Second
	// StonithTimeout is the time that Pacemaker is configured to spend on one
	// fence.
	StonithTimeout = 240 * time.Second
	// delayFactor is the margin for a BMC that becomes slower than it was measured.
	delayFactor = 2
)

// DelayOf returns the delay of a target's device while nothing is calibrated.
func DelayOf(target string, nodes []string) time.Duration {
	if len(nodes) > 1 && target == slices.Min(nodes) {
		return DefaultDelay
	}
	return 0
}

// Calibrate returns the delay for the measured times of both hosts, each from the
// start of a fence to its proof. Times of one host alone are an error: the other
// one's BMC may be the slow one.
func Calibrate(measured map[string][]time.Duration) (time.Duration, error) {
	var worst time.Duration
	hosts := 0
	for _, times := range measured {
		if len(times) > 0 {
			hosts++
			worst = max(worst, slices.Max(times))
		}
	}
	if hosts < 2 {
		return 0, fmt.Errorf("calibrate the delay: only %d of 2 hosts were fenced and measured", hosts)
	}
	if delay := max(MinimumDelay, delayFactor*worst); delay <= MaximumDelay {
		return delay, nil
	}
	return 0, fmt.Errorf("calibrate the delay: a BMC took %s to cut power, so a delay of %s would be needed, but at most %s is allowed: make that BMC faster; until then, hosts that lose contact with each other may both be switched off",
		worst.Round(time.Millisecond), delayFactor*worst.Round(time.Millisecond), MaximumDelay)
}

// KeepDelay chooses between the delays of a present device and of its replacement.
// A calibrated delay outlives new credentials, but never a change of which host
// waits.
func KeepDelay(old, replacement time.Duration) time.Duration {
	if old > 0 && replacement > 0 {
		return old
	}
	return replacement
}
