package fencing

import (
	"fmt"
	"slices"
	"time"
)

// The delay between two hosts that fence each other. The second one by name
// waits before it fences the first: by then the first must have had it
// switched off.
const (
	DefaultDelay = 20 * time.Second
	MinimumDelay = 3 * time.Second
	// MaximumDelay leaves Pacemaker's stonith-timeout the time to fence: Longest.
	MaximumDelay = 60 * time.Second
	// StonithTimeout is what Pacemaker is configured to spend on one fence.
	StonithTimeout = 240 * time.Second
	// delayFactor covers a BMC that is slower than it ever was.
	delayFactor = 2
)

// DelayOf is the delay of a target's device while nothing is calibrated.
func DelayOf(target string, nodes []string) time.Duration {
	if len(nodes) > 1 && target == slices.Min(nodes) {
		return DefaultDelay
	}
	return 0
}

// Calibrate returns the delay for the measured times from a fence's begin to
// its proof, of both hosts. It is an error to calibrate from one host alone:
// the other one's BMC may be the slow one.
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
		return 0, fmt.Errorf("calibrate the delay: %d of 2 hosts were fenced and measured", hosts)
	}
	if delay := max(MinimumDelay, delayFactor*worst); delay <= MaximumDelay {
		return delay, nil
	}
	return 0, fmt.Errorf("calibrate the delay: a BMC took %s to cut power, so that %s would be needed and %s is the most: make that BMC quicker, since hosts that lose sight of each other may both go off until then",
		worst.Round(time.Millisecond), delayFactor*worst.Round(time.Millisecond), MaximumDelay)
}

// KeepDelay chooses between the delay of a device that is there and that of
// the one that replaces it: a calibrated delay outlives new credentials, but
// never a change of who waits.
func KeepDelay(old, replacement time.Duration) time.Duration {
	if old > 0 && replacement > 0 {
		return old
	}
	return replacement
}
