package redfish

import (
	"context"
	"encoding/json"
	"net/url"
	"path"
	"slices"
)

// maxMedia bounds the requests for virtual media: a controller has a handful.
const maxMedia = 8

// Media returns what the controller has inserted into the system as a medium that the
// machine may boot from: "ID: IMAGE" for each, without the address of the image, in which
// an account may be. A controller without virtual media has none inserted.
func (c *Client) Media(ctx context.Context) (inserted []string, err error) {
	err = c.call(ctx, "look for virtual media", func(ctx context.Context) error {
		inserted = nil // a call may be repeated
		system, _, err := c.get(ctx, c.system)
		if err != nil {
			return err
		}
		places, err := c.mediaOf(ctx, system)
		if err != nil {
			return err
		}
		for _, place := range places[:min(len(places), maxMedia)] {
			m, _, err := c.get(ctx, place)
			if err != nil {
				return err
			}
			if m.truth("Inserted") {
				inserted = append(inserted, m.label("Id")+": "+m.image())
			}
		}
		return nil
	})
	return inserted, err
}

// mediaOf returns the paths of a system's virtual media. Newer controllers list them at the
// system, others at the controller itself.
func (c *Client) mediaOf(ctx context.Context, system fields) (paths []string, err error) {
	lists := []string{system.link("VirtualMedia")}
	for _, raw := range system.object("Links").list("ManagedBy") {
		manager, _, err := c.get(ctx, (fields{"": raw}).link(""))
		if err != nil {
			return nil, err
		}
		lists = append(lists, manager.link("VirtualMedia"))
	}
	for _, list := range lists {
		if list == "" {
			continue
		}
		page, _, err := c.get(ctx, list)
		if err != nil {
			return nil, err
		}
		for _, raw := range page.list("Members") {
			if p := (fields{"": raw}).link(""); p != "" && !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	return paths, nil
}

func (f fields) truth(name string) bool {
	var b bool
	return json.Unmarshal(f[name], &b) == nil && b
}

// image returns the name of the image in a medium.
func (f fields) image() string {
	if name := f.text("ImageName"); name != "" {
		return path.Base(name)
	}
	if u, err := url.Parse(f.text("Image")); err == nil && u.Path != "" {
		return path.Base(u.Path)
	}
	return "an image"
}
