package etcd

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/render/etcdmanifest"
)

// A process of podman's reads what etcd writes to its standard output. One that
// was stopped leaves the pipe full, and an etcd that logs there hangs.
func TestAnEtcdWhoseOutputNobodyReadsWorks(t *testing.T) {
	read, write, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { must(t, read.Close()); must(t, write.Close()) })
	size, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 1) // a page, the least there is
	must(t, err)
	_, err = write.Write(make([]byte, size))
	must(t, err)
	n := newNode(t, "alpha", newAuthority(t, t.TempDir()))
	n.output = write
	log := filepath.Join(t.TempDir(), "log", "etcd.log")
	n.start(t, append(etcdmanifest.LogFlags(log), "--log-level", "debug", "--initial-cluster", n.name+"="+n.peerURL())...)
	n.looks(t, "serves", serving)
	if info, err := os.Stat(log); err != nil || info.Size() == 0 {
		t.Errorf("its log: %v", err)
	}
}
