package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// FromConfig reads an Ignition config that is parsed and validated, and whose
// resources are all inline. The error lists everything that is wrong or that a
// package-based host does not support, by field path.
func FromConfig(cfg types.Config) (Desired, error) {
	d := decoder{}
	d.refuse(cfg)
	d.groups(cfg.Passwd.Groups)
	d.users(cfg.Passwd.Users)
	d.directories(cfg.Storage.Directories)
	d.files(cfg.Storage.Files)
	d.links(cfg.Storage.Links)
	d.units(cfg.Systemd.Units)
	d.nesting()
	d.packages()
	if err := errors.Join(d.errs...); err != nil {
		return Desired{}, err
	}
	return d.hashed(cfg)
}

// decoder collects the decoded parts and all faults.
type decoder struct {
	out  Desired
	errs []error
}

func (d *decoder) fault(field, format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf("%s: %w", field, fmt.Errorf(format, args...)))
}

// refuse reports features that only the first boot of an Ignition-based system
// supports.
func (d *decoder) refuse(cfg types.Config) {
	const disks = "a package-based host keeps its disks; remove it or use an Ignition-based system"
	refused := []struct {
		field string
		count int
		why   string
	}{
		{"storage.disks", len(cfg.Storage.Disks), disks},
		{"storage.raid", len(cfg.Storage.Raid), disks},
		{"storage.filesystems", len(cfg.Storage.Filesystems), disks},
		{"storage.luks", len(cfg.Storage.Luks), disks},
		{
			"kernelArguments", len(cfg.KernelArguments.ShouldExist) + len(cfg.KernelArguments.ShouldNotExist),
			"a package-based host keeps its boot loader; remove it and set them there",
		},
		{"ignition.config.merge", len(cfg.Ignition.Config.Merge), "not fetched yet"},
	}
	for _, r := range refused {
		if r.count > 0 {
			d.fault(r.field, "%s", r.why)
		}
	}
	if cfg.Ignition.Config.Replace.Source != nil {
		d.fault("ignition.config.replace", "not fetched yet")
	}
}

func (d *decoder) directories(list []types.Directory) {
	for i, n := range list {
		field := fmt.Sprintf("storage.directories.%d", i)
		d.place(field, n.Path)
		if n.Overwrite != nil && *n.Overwrite {
			d.fault(field+".overwrite", "would empty %s on a running host; set it to false", n.Path)
		}
		d.out.Directories = append(d.out.Directories, Directory{
			Field: field, Path: n.Path, Mode: modeOf(n.Mode), Owner: ownerOf(n.Node),
		})
	}
}

func (d *decoder) files(list []types.File) {
	for i, n := range list {
		field := fmt.Sprintf("storage.files.%d", i)
		d.place(field, n.Path)
		f := File{
			Field: field, Path: n.Path, Mode: modeOf(n.Mode), Owner: ownerOf(n.Node),
			Replace:   n.Contents.Source != nil,
			Contents:  d.contents(field+".contents", n.Contents),
			Overwrite: n.Overwrite != nil && *n.Overwrite,
		}
		for j, part := range n.Append {
			f.Append = append(f.Append, d.contents(fmt.Sprintf("%s.append.%d", field, j), part))
		}
		d.out.Files = append(d.out.Files, f)
	}
}

func (d *decoder) contents(field string, r types.Resource) []byte {
	data, err := ignition.Contents(r)
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s.%w", field, err))
	}
	return data
}

func (d *decoder) links(list []types.Link) {
	for i, n := range list {
		field := fmt.Sprintf("storage.links.%d", i)
		d.place(field, n.Path)
		l := Link{
			Field: field, Path: n.Path, Owner: ownerOf(n.Node),
			Hard:      n.Hard != nil && *n.Hard,
			Overwrite: n.Overwrite != nil && *n.Overwrite,
		}
		if n.Target != nil {
			l.Target = *n.Target
		}
		if l.Target == "" || l.Hard && !path.IsAbs(l.Target) {
			d.fault(field+".target", "needed, and absolute for a hard link")
		}
		d.out.Links = append(d.out.Links, l)
	}
}

// place refuses paths at which no file of the host may be.
func (d *decoder) place(field, p string) {
	for _, virtual := range []string{"/proc", "/sys", "/dev"} {
		if p == virtual || strings.HasPrefix(p, virtual+"/") {
			d.fault(field+".path", "%s lies in %s, which the kernel provides", p, virtual)
		}
	}
	if p == "/" {
		d.fault(field+".path", "/ is the whole host")
	}
	if strings.ContainsRune(p, 0) {
		d.fault(field+".path", "holds a zero byte")
	}
}

// nesting refuses paths below a file.
func (d *decoder) nesting() {
	files := map[string]bool{}
	for _, f := range d.out.Files {
		files[f.Path] = true
	}
	check := func(field, p string) {
		for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
			if files[dir] {
				d.fault(field+".path", "%s lies below %s, which is a file", p, dir)
			}
		}
	}
	for _, n := range d.out.Files {
		check(n.Field, n.Path)
	}
	for _, n := range d.out.Directories {
		check(n.Field, n.Path)
	}
	for _, n := range d.out.Links {
		check(n.Field, n.Path)
	}
}

// packageName matches the names that both package managers accept and that are
// no options.
var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._:-]*$`)

// packages reads the list of packages from the file that contains it.
func (d *decoder) packages() {
	for _, f := range d.out.Files {
		if f.Path != PackagesFile {
			continue
		}
		if err := json.Unmarshal(f.Contents, &d.out.Packages); err != nil {
			d.fault(f.Field, "%s is not a list of packages: %w", f.Path, err)
		}
		for _, name := range append(append([]string{}, d.out.Packages.APT...), d.out.Packages.DNF...) {
			if !packageName.MatchString(name) {
				d.fault(f.Field, "%s: %q is not the name of a package", f.Path, name)
			}
		}
	}
}

func (d *decoder) hashed(cfg types.Config) (Desired, error) {
	raw, err := json.Marshal(cfg)
	if err != nil {
		return Desired{}, err
	}
	sum := sha256.Sum256(raw)
	d.out.Hash = hex.EncodeToString(sum[:])
	return d.out, nil
}

// specialBits are the bits of a Unix mode that fs.FileMode keeps elsewhere.
var specialBits = map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

func modeOf(mode *int) *fs.FileMode {
	if mode == nil {
		return nil
	}
	m := fs.FileMode(*mode) & fs.ModePerm //nolint:gosec // a mode has twelve bits
	for bit, flag := range specialBits {
		if uint32(*mode)&bit != 0 { //nolint:gosec // a mode has twelve bits
			m |= flag
		}
	}
	return &m
}

func ownerOf(n types.Node) Owner {
	return Owner{
		User:  nameOf(n.User.ID, n.User.Name),
		Group: nameOf(n.Group.ID, n.Group.Name),
	}
}

func nameOf(id *int, name *string) Name {
	if name == nil {
		return Name{ID: id}
	}
	return Name{ID: id, Name: *name}
}
