package nic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/uplink"
	"github.com/holdfast/holdfast/internal/model/state"
)

// kernel writes a host's files, given as lines of path and content.
func kernel(t *testing.T, lines string) Kernel {
	t.Helper()
	k := Kernel{Root: t.TempDir()}
	for line := range strings.Lines(lines) {
		path, content, _ := strings.Cut(strings.TrimSpace(line), " ")
		path = k.path(path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

const files = `/sys/class/net/eth0/uevent INTERFACE=eth0
/sys/class/net/eth0/device/vendor x
/sys/class/net/eth0/master/uevent x
/sys/class/net/bond0/uevent DEVTYPE=bond
/sys/class/net/bond0/lower_eth0/uevent x
/proc/sys/net/ipv6/conf/eth0/accept_ra 1
/proc/sys/net/ipv6/conf/bond0/accept_ra 1
/proc/sys/net/ipv4/conf/all/arp_ignore 0
/proc/sys/net/ipv4/conf/all/arp_announce 1`

func TestWhatTheKernelShowsOfInterfaces(t *testing.T) {
	k := kernel(t, files)
	if err := os.MkdirAll(k.path("/sys/class/net/gone"), 0o755); err != nil { // it disappeared during the read
		t.Fatal(err)
	}
	got, err := k.Links()
	want := []uplink.Link{
		{Name: "bond0", Kind: "bond", Lower: []string{"eth0"}, AcceptRA: state.Known(1)},
		{Name: "eth0", Physical: true, Member: true, AcceptRA: state.Known(1)},
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestSettingsAreRaisedAndNeverLowered(t *testing.T) {
	k := kernel(t, files)
	if err := k.SetARP(); err != nil {
		t.Fatal(err)
	}
	if err := k.Hear("bond0"); err != nil {
		t.Fatal(err)
	}
	s, err := k.Settings()
	if err != nil || !state.Is(s.ARPIgnore, 1) || !state.Is(s.ARPAnnounce, 2) {
		t.Errorf("%+v, %v", s, err)
	}
	if n, _ := k.number(acceptRA("bond0")); !state.Is(n, 2) {
		t.Errorf("%+v", n)
	}
	strict := kernel(t, "/proc/sys/net/ipv4/conf/all/arp_ignore 2")
	if err := strict.SetARP(); err != nil { // this kernel also lacks the other setting
		t.Fatal(err)
	}
	if s, err := strict.Settings(); err != nil || !state.Is(s.ARPIgnore, 2) || s.ARPAnnounce.Known {
		t.Errorf("%+v, %v", s, err)
	}
}
