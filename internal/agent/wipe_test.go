package agent

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/retired"
)

func TestAWipeBeginsOnlyOnceItsHostIsNamed(t *testing.T) {
	for answer, code := range map[string]int{"cp-1\n": command.ExitOK, "cp-2\n": command.ExitNotConfirmed, "": command.ExitNotConfirmed} {
		err := confirmWipe(t.Context(), command.Streams{In: strings.NewReader(answer), Err: io.Discard}, "cp-1", wipeReport{Host: "cp-1"})
		if command.ExitCode(err) != code {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// A Node that somebody deleted before the replacement told nobody its machine id: the entry has what the
// plan knew, the UUID of the board.
func TestAReplacedHostIsWipedThoughItsNodeWasDeletedBefore(t *testing.T) {
	on := func(machine string) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine}}}
	}
	entry := retired.Host{Name: "cp-2", System: "4C4C4544-0001", ControlPlane: true, When: time.Unix(0, 0), By: "ada"}
	closed, known := entry, entry
	closed.Again, known.Machine = time.Unix(1, 0), "former"
	for _, c := range []struct {
		sentence       string
		entry          retired.Host
		node           *corev1.Node
		machine, board string
		out            bool
	}{
		{"no Node yet", entry, nil, "m", "4c4c4544-0001", true},
		{"another machine has the Node", closed, on("other"), "m", "4c4c4544-0001", true},
		{"another board", entry, nil, "m", "4c4c4544-0002", false},
		{"a board without a UUID", entry, nil, "m", "", false},
		{"the name was given again, and nobody has the Node", closed, nil, "m", "4c4c4544-0001", false},
		{"the Node is its own", closed, on("m"), "m", "4c4c4544-0001", false},
		{"the machine id is known: another installation on the board", known, nil, "m", "4c4c4544-0001", false},
		{"its machine id", known, nil, "former", "", true},
		{"neither is known", retired.Host{Name: "cp-2", When: time.Unix(0, 0)}, nil, "", "", false},
	} {
		if got := takenOut(retired.List{c.entry}, c.node, "cp-2", c.machine, c.board); (got != "") != c.out {
			t.Errorf("%s: %q", c.sentence, got)
		}
		if got := takenOut(retired.List{c.entry}, c.node, "cp-1", c.machine, c.board); got != "" {
			t.Errorf("%s: another host is out: %q", c.sentence, got)
		}
	}
}

func TestAnInterruptEndsTheQuestionOfAWipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		silent, end := io.Pipe()
		err := confirmWipe(ctx, command.Streams{In: silent, Err: io.Discard}, "cp-1", wipeReport{Host: "cp-1"})
		if command.ExitCode(err) != command.ExitNotConfirmed || !strings.Contains(err.Error(), "interrupted: nothing was changed") {
			t.Error(err)
		}
		_ = end.Close()
	})
}
