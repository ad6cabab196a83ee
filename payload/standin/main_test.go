package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/payload/standin/takeover"
)

func TestCommandLine(t *testing.T) {
	unreachable := `{"evidence": "e", "cluster": "1", "target": "2", "survivor": "3",
		"peerURL": "http://127.0.0.1:1", "clientURL": "http://127.0.0.1:1", "deadlineMS": 50}`
	for name, c := range map[string]struct {
		args     []string
		in       string
		code     int
		out, err string
	}{
		"help":                {[]string{"-help"}, "", takeover.ExitDone, "", "Usage:"},
		"version":             {[]string{"-version"}, "", takeover.ExitDone, "3.6.", ""},
		"an unknown flag":     {[]string{"-force"}, "", takeover.ExitUsage, "", "-help"},
		"an argument":         {[]string{"now"}, "", takeover.ExitUsage, "", "-help"},
		"settle without dir":  {[]string{"settle"}, "", takeover.ExitUsage, "", "-help"},
		"settle nothing":      {[]string{"settle", "-data-dir", "/nowhere"}, "", takeover.ExitDone, `"settled":false`, ""},
		"settle a file":       {[]string{"settle", "-data-dir", "/dev/null"}, "", takeover.ExitRefused, "", "/dev/null"},
		"inspect nothing":     {[]string{"inspect", "-data-dir", "/nowhere"}, "", takeover.ExitDone, `"copy":"none"`, ""},
		"inspect a file":      {[]string{"inspect", "-data-dir", "/dev/null"}, "", takeover.ExitFailed, "", "/dev/null"},
		"inspect without dir": {[]string{"inspect"}, "", takeover.ExitUsage, "", "-help"},
		"a wrong request":     {nil, "{}", takeover.ExitUsage, "", "evidence: name the fence"},
		"no etcd":             {nil, unreachable, takeover.ExitUnfinished, `"reason":"survivor-unreachable"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(context.Background(), c.args, strings.NewReader(c.in), &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.err) {
				t.Errorf("code %d, stdout %q, stderr %q", code, &out, &errs)
			}
		})
	}
}
