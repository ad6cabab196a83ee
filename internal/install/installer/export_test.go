package installer

import "github.com/holdfast/holdfast/internal/model/site"

// Load returns the site of the directory. The first call for a directory
// generates and saves its keys; later calls use those.
func (in *Installer) Load() (*site.Site, error) {
	s, _, _, err := in.open()
	return s, err
}
