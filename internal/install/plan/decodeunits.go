package plan

import (
	"fmt"
	"path"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// unitMode is the mode of unit files: everybody may read them.
const unitMode = 0o644

func (d *decoder) units(list []types.Unit) {
	for i, u := range list {
		field := fmt.Sprintf("systemd.units.%d", i)
		if !ignition.ValidUnitName(u.Name) {
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
		case !ignition.ValidUnitName(drop.Name):
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
