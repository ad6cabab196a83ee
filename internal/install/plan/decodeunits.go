package plan

import (
	"fmt"
	"path"
	"regexp"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// unitMode is the mode of unit files: everybody may read them.
const unitMode = 0o644

// unitName matches the names that systemd accepts for a unit (systemd.unit(5))
// and that are neither options nor paths.
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\][A-Za-z0-9:_.\\@-]*$`)

func (d *decoder) units(list []types.Unit) {
	for i, u := range list {
		field := fmt.Sprintf("systemd.units.%d", i)
		if !unitName.MatchString(u.Name) || len(u.Name) > 255 {
			d.fault(field+".name", "%q is not the name of a unit", u.Name)
			continue
		}
		if value(u.Mask) && value(u.Contents) != "" {
			d.fault(field+".mask", "%s cannot be masked and have contents: the mask takes their place", u.Name)
		}
		d.out.Units = append(d.out.Units, Unit{Field: field, Name: u.Name, Enabled: u.Enabled, Masked: u.Mask})
		d.unitFiles(field, u)
	}
}

func (d *decoder) unitFiles(field string, u types.Unit) {
	if value(u.Contents) != "" {
		d.unitFile(field+".contents", u.Name, path.Join(UnitDir, u.Name), *u.Contents)
	}
	for j, drop := range u.Dropins {
		field := fmt.Sprintf("%s.dropins.%d", field, j)
		switch {
		case !unitName.MatchString(drop.Name):
			d.fault(field+".name", "%q is not the name of a file", drop.Name)
		case value(drop.Contents) != "":
			d.unitFile(field+".contents", u.Name, path.Join(UnitDir, u.Name+".d", drop.Name), *drop.Contents)
		}
	}
}

func (d *decoder) unitFile(field, unit, file, contents string) {
	mode := modeOf(new(int(unitMode)))
	d.out.Files = append(d.out.Files, File{
		Field: field, Path: file, Contents: []byte(contents), Replace: true, Overwrite: true, Mode: mode, Unit: unit,
	})
}
