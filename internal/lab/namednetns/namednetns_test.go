package namednetns

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The machine's first `ip netns add` must not bury a namespace of ours. A mount
// namespace of the test's own represents a machine that has just booted.
func TestANamespaceGoesAlthoughOthersMadeTheirsSince(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED, since this is not root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	must(t, unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
	must(t, unix.Mount("", "/", "none", unix.MS_PRIVATE|unix.MS_REC, ""))
	must(t, unix.Mount("none", "/run", "tmpfs", 0, ""))
	here, err := netns.Get()
	must(t, err)
	ours, err := New("hf-ours")
	must(t, err)
	must(t, ours.Close())
	must(t, netns.Set(here))
	for _, args := range []string{"add hf-theirs", "del hf-ours", "del hf-theirs"} {
		if out, err := exec.CommandContext(t.Context(), "ip", append([]string{"netns"}, strings.Fields(args)...)...).CombinedOutput(); err != nil {
			t.Errorf("ip netns %s: %v: %s", args, err, out)
		}
	}
	if left, err := os.ReadDir(Dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
