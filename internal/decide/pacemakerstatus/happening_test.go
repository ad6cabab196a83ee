package pacemakerstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

func TestB9HardCase34WhatIsToldOnce(t *testing.T) {
	at := noon
	c := crmmon.Cluster{
		Fences: []crmmon.Fence{
			{Target: "cp-2", Action: "reboot", By: "cp-1", State: crmmon.FenceSucceeded, Done: at},
			{Target: "cp-2", Action: "reboot", By: "cp-1", State: crmmon.FencePending},
			{Target: "cp-2", Action: "reboot", By: "cp-1", State: crmmon.FenceFailed, Done: at.Add(-time.Minute), Words: "refused"},
			{Target: "cp-2", Action: "off", By: "cp-1", State: crmmon.FenceFailed}, // nobody knows when
		},
		Failures: []crmmon.Failure{
			{Node: "cp-2", Resource: "kubelet", Task: "monitor", Code: 7, Probe: true, When: at},
			{Node: "cp-2", Resource: "kubelet", Task: "monitor", Code: 7, When: at, Words: "not running", Call: "3"},
			{Node: "cp-2", Resource: "etcd", Task: "monitor", Code: 1, Probe: true, When: at, Words: "error", Call: "4"},
		},
	}
	var texts, keys []string
	for _, h := range Happenings(c) {
		texts, keys = append(texts, h.Text), append(keys, h.Key)
	}
	want := "fence of cp-2 failed: reboot by cp-1 at 2026-11-20T11:59:00Z: refused\n" +
		"fence of cp-2 succeeded: reboot by cp-1 at 2026-11-20T12:00:00Z\n" +
		"monitor of kubelet on cp-2 failed: not running (code 7)\n" +
		"monitor of etcd on cp-2 failed: error (code 1)"
	if got := strings.Join(texts, "\n"); got != want {
		t.Errorf("got:\n%s", got)
	}
	c.Fences[0].Done = at.Add(300 * time.Millisecond) // another version tells the time better
	if again := Happenings(c); again[1].Key != keys[1] && again[3].Key != keys[1] {
		t.Errorf("another key: %+v", again)
	}
}

func TestHardCase34ProbesAfterABootAreNoFailures(t *testing.T) {
	if h := Happenings(parsed(t, "probes-after-a-boot")); len(h) != 0 {
		t.Errorf("%+v", h)
	}
}
