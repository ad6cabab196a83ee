package etcd

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/render/etcdmanifest"
)

// A process of podman's reads etcd's standard output. If that process is
// stopped, the pipe fills up, and an etcd that logs to it hangs.
func TestAnEtcdWhoseOutputNobodyReadsWorks(t *testing.T) {
	read, write, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { must(t, read.Close()); must(t, write.Close()) })
	size, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 1) // one page, the minimum
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
