package loss_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

// takenOutWithin has room for a member that leaves etcd, or for a drain.
const takenOutWithin = 3 * time.Minute

// TestALostOneOfThreeControlPlanesIsReplaced burns one of three control planes, and replaces it by
// another machine of the same name while clients write. The site takes a backup first.
func TestALostOneOfThreeControlPlanesIsReplaced(t *testing.T) {
	s := up(t, 3)
	stays, lost := s.ControlPlanes()[0], s.ControlPlanes()[2]
	old, _ := s.Lab.Layout.Host(lost)
	s.burns(lost)
	w := s.write(stays)
	s.swap(lost)
	s.replacesByHand(stays, lost, lost, old.Serial)
	w.paused("while one of three was replaced", replacePause)
	w.judge()
	s.eventually(wholeWithin, "the site says that it is healthy", func() error { return s.healthy(stays) })
}

// TestALostWorkerIsReplaced burns a worker, and replaces it by a machine of another name.
func TestALostWorkerIsReplaced(t *testing.T) {
	const lost, next = "worker-1", "worker-2"
	s := up(t, 2, "--workers=1", "--spare-workers=1")
	stays := s.ControlPlanes()[0]
	s.burns(lost)
	s.Retire(lost)
	w := s.write(stays)
	s.replacesByHand(stays, lost, next, lost+" --new-name "+next)
	w.paused("while a worker was replaced", replacePause)
	w.judge()
	s.eventually(wholeWithin, "the site says that it is healthy", func() error { return s.healthy(stays) })
}

// burns takes a machine's power away for good.
func (s site) burns(name string) {
	s.Helper()
	if err := s.Power.Inject(s.Context(), lab.Fault{Kind: lab.FaultACLoss, Host: name}); err != nil {
		s.Fatal(err)
	}
}

// replacesByHand takes out a host that nobody fences, by a person's word, and lets the next one in.
func (s site) replacesByHand(stays, lost, next, word string) {
	s.Helper()
	command := fmt.Sprintf("holdfast host replace %s --yes --by test --join-file /root/join.ign --is-gone %s", lost, word)
	began := time.Now()
	s.eventually(takenOutWithin, "the join file", func() error {
		out, err := s.Sh(s.Context(), stays, command+" --timeout 20s")
		if _, unread := s.ReadFile(s.Context(), stays, "/root/join.ign"); unread != nil {
			return fmt.Errorf("%s, %w", out, err)
		}
		return nil
	})
	s.Logf("%s was taken out after %.0f s", lost, time.Since(began).Seconds())
	s.install(next, s.on(stays, "cat /root/join.ign"))
	installed := time.Now()
	out := s.on(stays, fmt.Sprintf("%s --timeout %s", strings.Replace(command, " --join-file /root/join.ign", "", 1), joinWithin))
	s.Logf("%s was in %.0f s after it was switched on: %s", next, time.Since(installed).Seconds(), out)
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(s.Context()) })
}
