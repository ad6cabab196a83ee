package twonode

import (
	"encoding/xml"
	"fmt"
)

// cib holds the parts of the CIB that Holdfast sets. pcs puts no rules and no
// references into what it makes for us; elements with them belong to a person
// and stay.
type cib struct {
	Configuration struct {
		Properties  []nvset     `xml:"crm_config>cluster_property_set"`
		Resources   container   `xml:"resources"`
		Constraints constraints `xml:"constraints"`
		Defaults    []nvset     `xml:"rsc_defaults>meta_attributes"`
		OpDefaults  []nvset     `xml:"op_defaults>meta_attributes"`
	} `xml:"configuration"`
}

type nvset struct {
	Pairs []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	} `xml:"nvpair"`
}

// container is any element that holds primitives: the resources themselves, a
// clone, a group.
type container struct {
	ID         string      `xml:"id,attr"`
	Meta       []nvset     `xml:"meta_attributes"`
	Primitives []primitive `xml:"primitive"`
	Clones     []container `xml:"clone"`
	Masters    []container `xml:"master"`
	Groups     []container `xml:"group"`
	Bundles    []container `xml:"bundle"`
}

type primitive struct {
	ID         string  `xml:"id,attr"`
	Class      string  `xml:"class,attr"`
	Provider   string  `xml:"provider,attr"`
	Type       string  `xml:"type,attr"`
	Parameters []nvset `xml:"instance_attributes"`
	Meta       []nvset `xml:"meta_attributes"`
	Operations []struct {
		Attributes []xml.Attr `xml:",any,attr"`
	} `xml:"operations>op"`
}

type constraints struct {
	All []struct {
		XMLName    xml.Name
		Attributes []xml.Attr `xml:",any,attr"`
	} `xml:",any"`
}

// ParseCIB reads Pacemaker's configuration. It does not hold Corosync's.
func ParseCIB(text []byte) (Config, error) {
	var doc cib
	if err := xml.Unmarshal(text, &doc); err != nil {
		return Config{}, fmt.Errorf("read CIB: %w", err)
	}
	c := Config{
		Properties:       pairs(doc.Configuration.Properties),
		ResourceDefaults: pairs(doc.Configuration.Defaults), OperationDefaults: pairs(doc.Configuration.OpDefaults),
	}
	c.Resources = append(c.Resources, doc.Configuration.Resources.resources("")...)
	for _, x := range doc.Configuration.Constraints.All {
		id, settings := attributes(x.Attributes, "id")
		c.Constraints = append(c.Constraints, Constraint{ID: id, Kind: ConstraintKind(x.XMLName.Local), Settings: settings})
	}
	return c, nil
}

func pairs(sets []nvset) []Setting {
	var out []Setting
	for _, set := range sets {
		for _, p := range set.Pairs {
			out = append(out, Setting{Name: p.Name, Value: p.Value})
		}
	}
	return out
}

// attributes splits an element's attributes into the value of key and all
// others.
func attributes(attrs []xml.Attr, key string) (v string, others []Setting) {
	for _, a := range attrs {
		if a.Name.Local == key {
			v = a.Value
			continue
		}
		others = append(others, Setting{Name: a.Name.Local, Value: a.Value})
	}
	return v, others
}

// resources lists the primitives in a container, each with the elements around
// it.
func (c container) resources(within string) []Resource {
	var out []Resource
	for _, p := range c.Primitives {
		r := p.resource()
		r.Within = within
		out = append(out, r)
	}
	for _, clone := range c.Clones {
		for _, r := range clone.resources(within) {
			if r.Within == "" {
				r.Clone = &Clone{ID: clone.ID, Meta: pairs(clone.Meta)}
			}
			out = append(out, r)
		}
	}
	for _, held := range [][]container{c.Masters, c.Groups, c.Bundles} {
		for _, h := range held {
			out = append(out, h.resources(h.ID)...)
		}
	}
	return out
}

func (p primitive) resource() Resource {
	r := Resource{ID: p.ID, Agent: p.Class + ":", Parameters: pairs(p.Parameters), Meta: pairs(p.Meta)}
	if p.Provider != "" {
		r.Agent += p.Provider + ":"
	}
	r.Agent += p.Type
	for _, op := range p.Operations {
		name, settings := attributes(op.Attributes, "name")
		r.Operations = append(r.Operations, Operation{Name: name, Settings: settings})
	}
	return r
}
