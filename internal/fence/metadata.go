package fence

import (
	"encoding/xml"
	"fmt"
	"strings"
)

const longDescription = `fence_holdfast fences one host of a two-node Holdfast cluster through its BMC, by Redfish. ` +
	`Address and account are read from a file that only root can read, so that neither the CIB nor a process list holds a secret. ` +
	`It makes sure that the BMC is the target's own, has fence_redfish cut the power, and reads the power state back itself: ` +
	`only exactly Off is success. Then it leaves the evidence that etcd needs to go on alone.`

// metadata returns the agent's description of itself in the format of the
// FenceAgentAPI.
func metadata() string {
	var b strings.Builder
	b.WriteString(xml.Header)
	b.WriteString(`<resource-agent name="fence_holdfast" shortdesc="Fence agent of Holdfast: Redfish, read back">` + "\n")
	fmt.Fprintf(&b, "<longdesc>%s</longdesc>\n<vendor-url></vendor-url>\n<parameters>\n", escaped(longDescription))
	for _, o := range optionTable {
		b.WriteString(o.metadata())
	}
	b.WriteString("</parameters>\n<actions>\n")
	for _, action := range actions {
		automatic := ""
		if action == "on" {
			automatic = ` automatic="0"`
		}
		fmt.Fprintf(&b, "\t<action name=%q%s/>\n", action, automatic)
	}
	b.WriteString("</actions>\n</resource-agent>\n")
	return b.String()
}

func (o option) metadata() string {
	required, fallback := 0, ""
	if o.required {
		required = 1
	}
	if o.fallback != "" {
		fallback = fmt.Sprintf(" default=%q", o.fallback)
	}
	mixed := fmt.Sprintf("--%s=[%s]", strings.ReplaceAll(o.name, "_", "-"), o.name)
	if o.short != "" {
		mixed = "-" + o.short + ", " + mixed
	}
	return fmt.Sprintf("\t<parameter name=%q unique=\"0\" required=\"%d\">\n\t\t<getopt mixed=%q/>\n\t\t<content type=%q%s/>\n\t\t<shortdesc lang=\"en\">%s</shortdesc>\n\t</parameter>\n",
		o.name, required, mixed, o.kind, fallback, escaped(o.doc))
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}
