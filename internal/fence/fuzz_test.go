package fence

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/records"
)

// FuzzOptions parses arbitrary input from Pacemaker.
func FuzzOptions(f *testing.F) {
	for _, seed := range []string{
		"action=off\nplug=cp-1\nnodename=cp-1\n", "option=reboot\n# x\n\nport=cp-1\npower-timeout=60s", "action=metadata", "plug=a\nport=b\naction=off",
		"action=off\nplug=../../etc/shadow\npower_timeout=-1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		o, err := parse(strings.NewReader(input), nil)
		if err != nil {
			return
		}
		if !slices.Contains(actions, o.action) || o.powerTimeout <= 0 || o.byHand {
			t.Errorf("%q is read as %+v", input, o)
		}
		if o.target == "" && o.action != "metadata" && o.action != "list" {
			t.Errorf("%q names no host: %+v", input, o)
		}
		if records.IsNodeName(o.target) && strings.ContainsAny(o.target, "/\x00") {
			t.Errorf("%q leads out of the folder of devices", o.target)
		}
	})
}

// FuzzWhatAPeerTells parses what the agent of the other host published.
func FuzzWhatAPeerTells(f *testing.F) {
	f.Add(`{"target":"cp-1","problem":"it answers 401"}`)
	f.Add(`{"target":"../x","problem":"y"}`)
	f.Add(`{"target":"CP-1","problem":7}`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, value string) {
		for target, problem := range Problems(map[string]string{"cp-2": value}) {
			if !records.IsNodeName(target) || problem.Words == "" {
				t.Errorf("%q is read as %q: %q", value, target, problem)
			}
		}
	})
}
