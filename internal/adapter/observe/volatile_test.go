package observe

import (
	"slices"
	"testing"
)

func TestWhatIsGoneWithTheNextBoot(t *testing.T) {
	const disk = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n24 22 0:5 / /tmp rw - tmpfs tmpfs rw\n"
	for name, c := range map[string]struct {
		table string
		seen  []string
		want  []string
	}{
		"a disk": {table: disk},
		"a disk of its own for /var": {
			table: "22 1 0:20 / / ro - squashfs /dev/loop0 ro\n23 22 8:2 / /var rw - xfs /dev/sda2 rw\n24 22 8:3 / /etc rw - ext4 /dev/sda3 rw\n",
		},
		"a live Debian": {
			table: "20 1 0:19 / /run rw - tmpfs tmpfs rw\n21 20 0:22 / /run/live/overlay rw - tmpfs tmpfs rw\n" +
				"22 1 0:23 / / rw - overlay overlay rw,lowerdir=/run/live/rootfs/filesystem.squashfs/,upperdir=/run/live/overlay/rw,workdir=/run/live/overlay/work\n",
			seen: []string{"/run/live/overlay/rw"},
			want: []string{"/etc (overlay over tmpfs at /run/live/overlay)", "/var/lib (overlay over tmpfs at /run/live/overlay)"},
		},
		"a live image with /var in memory": {
			table: disk + "25 22 0:30 /var /var rw - tmpfs ephemeral rw\n",
			want:  []string{"/var/lib (tmpfs at /var)"},
		},
		"an image that was loaded into memory": {
			table: "1 1 0:2 / / rw - rootfs rootfs rw\n",
			want:  []string{"/etc (rootfs at /)", "/var/lib (rootfs at /)"},
		},
		"what is mounted over it counts": {
			table: disk + "25 22 0:30 / /var/lib rw - tmpfs x rw\n26 25 8:9 / /var/lib rw - ext4 /dev/sdb rw\n",
		},
		// The container's /tmp is not that of the machine around it.
		"a container": {
			table: "22 1 0:50 / / rw - overlay overlay rw,lowerdir=/tmp/l/A,upperdir=/tmp/storage/diff,workdir=/tmp/w\n23 22 0:51 / /tmp rw - tmpfs tmpfs rw\n",
		},
		"an overlay on a disk": {
			table: disk + "25 22 0:60 / /etc rw - overlay overlay rw,lowerdir=/usr/etc,upperdir=/data\\040s/upper,workdir=/data/work\n",
			seen:  []string{"/data s/upper"},
		},
		"an overlay that names itself": {
			table: "22 1 0:50 / / rw - overlay overlay rw,upperdir=/upper\n", seen: []string{"/upper"},
		},
		"damaged lines": {table: "22 1\n - \nx y z a b - tmpfs\n" + disk},
	} {
		got := inMemory(c.table, []string{"/etc", "/var/lib"}, func(p string) bool { return slices.Contains(c.seen, p) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTheMountsOfThisMachineAreRead(t *testing.T) {
	if _, err := InMemory("/etc"); err != nil {
		t.Error(err)
	}
}
