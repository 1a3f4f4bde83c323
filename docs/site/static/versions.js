// SPDX-License-Identifier: MIT
// A switch between releases, where the folder above has versions.json: packages/site.
const top_ = new URL(document.documentElement.dataset.content_root || "./", location.href)

fetch(new URL("../versions.json", top_)).then(answer => answer.json()).then(versions => {
    const here = top_.pathname.split("/").filter(Boolean).pop()
    const choice = document.createElement("select")
    choice.setAttribute("aria-label", "version")
    for (const version of versions)
        choice.add(new Option(version, version, false, version === here))
    choice.onchange = () => {
        const page = location.href.slice(top_.href.length)
        location.href = new URL(`../${choice.value}/${page}`, top_)
    }
    document.querySelector(".sidebar-brand").after(choice)
}).catch(() => {}) // another layout: no switch
