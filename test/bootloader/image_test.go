package bootloader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab"
)

// kind is a machine's firmware and boot loader.
type kind struct {
	name     string
	packages []string
	uefi     bool
}

// base are the packages of each machine, besides Debian's essential ones.
var base = []string{"systemd-sysv", "udev", "kmod", "initramfs-tools", "linux-image-cloud-amd64"}

var (
	grub        = kind{name: "grub", packages: []string{"grub-pc"}}
	systemdBoot = kind{name: "systemd-boot", packages: []string{"systemd-boot", "dosfstools"}, uefi: true}
)

//go:embed scripts
var scripts embed.FS

// The disk of a machine, in sectors: a place for GRUB's core, the file system of the boot
// loader, and the root.
const (
	sector    = 512
	bootStart = 4096
	bootMiB   = 256
	rootStart = bootStart + bootMiB<<20/sector
	rootMiB   = 1600
	diskMiB   = rootMiB + bootMiB + 8
)

// The types of those partitions.
const (
	typeBIOS  = "21686148-6449-6E6F-744E-656564454649"
	typeESP   = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
	typeLinux = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
)

// Files of an image.
const (
	diskFile, kernelFile, initrdFile, varsFile = "disk.img", "vmlinuz", "initrd.img", "vars.fd"
)

// firmware is the code of UEFI, and emptyVars are the variables of a machine that is new.
const (
	firmware  = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	emptyVars = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

func script(t *testing.T, name string) []byte {
	t.Helper()
	data, err := scripts.ReadFile("scripts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// must runs a program of this machine.
func must(t *testing.T, stdin, name string, args ...string) {
	t.Helper()
	c := host.Command(name, args...)
	if stdin != "" {
		c.Stdin = strings.NewReader(stdin)
	}
	if _, err := host.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// image returns the folder with the files of an installed machine of this kind. They are
// made once, and kept where the images of the lab's hosts are.
func (k kind) image(t *testing.T) string {
	t.Helper()
	debian, err := lab.HostImage("/", nil) // it knows the package sources of this machine
	if err != nil {
		t.Fatal(err)
	}
	cache, err := release.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	all := filepath.Join(cache, "machines")
	if err := os.MkdirAll(all, 0o755); err != nil {
		t.Fatal(err)
	}
	defer lock(t, filepath.Join(all, k.name+".lock"))()
	dir := filepath.Join(all, k.name+"-"+k.inputs(t, debian))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	stale, err := filepath.Glob(filepath.Join(all, k.name+"-*")) // of other scripts, or half of one
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range stale {
		if err := os.RemoveAll(old); err != nil {
			t.Fatal(err)
		}
	}
	part := dir + ".part"
	k.build(t, debian, part)
	if err := os.Rename(part, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inputs returns the hash of everything that an image is made from, without the state of
// the package mirror.
func (k kind) inputs(t *testing.T, debian lab.Image) string {
	t.Helper()
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, debian.Tag(), base, k, bootStart, rootStart, diskMiB, installArguments)
	for _, name := range []string{"before.sh", "after.sh", k.name + ".sh"} {
		sum.Write(script(t, name))
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:16]
}

func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

// build makes a disk with Debian, and boots it once to have the boot loader installed in
// the machine itself, as on any other.
func (k kind) build(t *testing.T, debian lab.Image, dir string) {
	t.Helper()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	k.unpack(t, debian, dir, root)
	k.format(t, dir, root)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	if k.uefi {
		must(t, "", "cp", emptyVars, filepath.Join(dir, varsFile))
	}
	m := &machine{kind: k, dir: dir, kernel: true}
	m.start(t)
	m.must(t, "sh /usr/local/sbin/bootable")
	m.off(t)
}

// unpack makes the root file system of a machine.
func (k kind) unpack(t *testing.T, debian lab.Image, dir, root string) {
	t.Helper()
	args := []string{
		"mmdebstrap", "--variant=minbase", "--mode=root", "--format=directory",
		"--include=" + strings.Join(slices.Concat(base, k.packages), ","),
		"--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
	}
	for hook, name := range map[string]string{"essential": "before.sh", "customize": "after.sh"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, script(t, name), 0o700); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+hook+"-hook="+path)
	}
	// In a session of its own: when it is ended, it ends its whole process group.
	c := host.Command("setsid", slices.Concat(args, []string{debian.Suite, root}, debian.Sources)...)
	c.Env = []string{"TMPDIR=" + dir}
	var said bytes.Buffer
	c.Stderr = &said
	if _, err := host.Run(t.Context(), c); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	for path, data := range map[string][]byte{
		"usr/local/sbin/bootable": script(t, k.name+".sh"),
		"etc/machine-id":          []byte("0123456789abcdef0123456789abcdef\n"), // mmdebstrap empties it at its end
	} {
		if err := os.WriteFile(filepath.Join(root, path), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, name := range map[string]string{"vmlinuz": kernelFile, "initrd.img": initrdFile} {
		found, err := filepath.Glob(filepath.Join(root, "boot", link+"-*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %q, %v", link, found, err)
		}
		must(t, "", "cp", found[0], filepath.Join(dir, name))
	}
}

// format makes the disk. GRUB gets a /boot of its own, of which nothing that is synced
// elsewhere makes anything durable; systemd-boot gets the partition of its firmware.
func (k kind) format(t *testing.T, dir, root string) {
	t.Helper()
	disk, second := filepath.Join(dir, diskFile), typeLinux
	if k.uefi {
		second = typeESP
	}
	must(t, "", "truncate", "--size", fmt.Sprintf("%dM", diskMiB), disk)
	must(t, fmt.Sprintf("label: gpt\nstart=2048, size=2048, type=%s\nstart=%d, size=%d, type=%s\nstart=%d, size=%d, type=%s\n",
		typeBIOS, bootStart, bootMiB<<20/sector, second, rootStart, rootMiB<<20/sector, typeLinux), "sfdisk", "--quiet", disk)
	if k.uefi {
		// With larger clusters it has so few of them that UEFI takes it for a FAT16.
		must(t, "", "mkfs.fat", "-F", "32", "-s", "2", "-n", "BOOT", "--offset", fmt.Sprint(bootStart), disk, fmt.Sprint(bootMiB<<10))
	} else {
		boot := filepath.Join(dir, "boot")
		must(t, "", "mv", filepath.Join(root, "boot"), boot)
		must(t, "", "mkdir", filepath.Join(root, "boot"))
		ext4(t, disk, "BOOT", boot, bootStart, bootMiB)
		must(t, "", "rm", "-r", boot)
	}
	ext4(t, disk, "root", root, rootStart, rootMiB)
}

// ext4 makes a file system with the files of a folder within a disk.
func ext4(t *testing.T, disk, label, from string, start, mib int) {
	t.Helper()
	must(t, "", "mke2fs", "-q", "-F", "-t", "ext4", "-L", label, "-d", from, "-E", fmt.Sprintf("offset=%d", start*sector), disk, fmt.Sprintf("%dM", mib))
}

// needTools fails the test where a program is missing: whoever plays it wants it played.
func needTools(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a Debian is unpacked by root: run this as root")
	}
	for _, p := range []string{"qemu-system-x86_64", "mmdebstrap", "sfdisk", "mkfs.fat", "mke2fs"} {
		if _, err := host.Run(context.WithoutCancel(t.Context()), host.Command("sh", "-c", "command -v "+p)); err != nil {
			t.Fatalf("%s is missing: run hack/setup", p)
		}
	}
	if _, err := os.Stat(firmware); err != nil {
		t.Fatalf("%v: run hack/setup", err)
	}
}
