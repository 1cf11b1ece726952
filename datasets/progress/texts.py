"""What texts of each era say, for personas: dated, in our own words, with the record in which each stands."""

from typing import NamedTuple


class Text(NamedTuple):
    """A text of an era."""

    year: int
    record: str
    """Where it stands."""
    says: str
    """What it says, in our own words."""


TEXTS: dict[str, tuple[Text, ...]] = {
    "C013": (
        Text(
            1215,
            "Magna Carta, clauses 39 and 40",
            "No free man is to be imprisoned, dispossessed, outlawed or ruined except by the judgement of his "
            "equals or the law of the land, and justice is not to be sold, refused or put off.",
        ),
        Text(
            1215,
            "Fourth Lateran Council, canon 21",
            "Whoever has reached the age of reason is to confess all sins to his own priest at least once a year, "
            "to do the penance, and to take communion at Easter.",
        ),
        Text(
            1285,
            "Statute of Winchester",
            "The people of a district answer for the robberies done in it unless they hand over the robbers, and "
            "the gates of towns are to be shut from sunset to sunrise.",
        ),
    ),
    "C014": (
        Text(
            1351,
            "Statute of Labourers",
            "Servants and workers are to take the wages that were usual before the plague, and are not to leave "
            "their village for work in summer if they can have work there.",
        ),
        Text(
            1353,
            "Boccaccio, Decameron, introduction",
            "In the plague brother left brother, wives their husbands, and, hardly to be believed, fathers and "
            "mothers their children, as if they were not theirs.",
        ),
        Text(
            1363,
            "Statute on diet and apparel",
            "Each rank is to wear the cloth that becomes it: craftsmen, yeomen and their wives neither silk nor "
            "silver, and those who tend animals only coarse cloth.",
        ),
    ),
    "C015": (
        Text(
            1405,
            "Christine de Pizan, The Book of the City of Ladies",
            "If daughters were sent to school as sons are, they would learn as thoroughly and understand the arts "
            "and sciences as well.",
        ),
        Text(
            1427,
            "Thomas à Kempis, The Imitation of Christ, book 1",
            "A humble peasant who serves God is better than a proud scholar who watches the stars and forgets "
            "himself; riches and honours are vanity.",
        ),
        Text(
            1486,
            "Pico della Mirandola, Oration",
            "God gave man no fixed place: he is to choose what he will be, and can sink to the beasts or rise to "
            "what is divine.",
        ),
    ),
    "C016": (
        Text(
            1520,
            "Luther, The Freedom of a Christian",
            "A Christian is free and subject to nobody, and at the same time the servant of all and subject to "
            "everybody.",
        ),
        Text(
            1525,
            "The Twelve Articles of the peasants",
            "A parish is to choose its own pastor, and nobody is to be held as a serf, since Christ has redeemed "
            "all, the shepherd as well as the lord.",
        ),
        Text(
            1555,
            "Peace of Augsburg",
            "The ruler of a land decides which of two confessions holds in it; who is of the other may sell what "
            "is his and leave.",
        ),
    ),
    "C017": (
        Text(
            1601,
            "Poor Relief Act",
            "Each parish is to tax its households, to set the poor to work and to keep those who cannot work; "
            "parents and children are to maintain each other if they are able.",
        ),
        Text(
            1651,
            "Hobbes, Leviathan, chapters 13 and 17",
            "Without a power that all fear there is war of each with each, and life is poor and short; so all "
            "give up their right to rule themselves to one who keeps the peace.",
        ),
        Text(
            1689,
            "Locke, A Letter Concerning Toleration",
            "The care of souls is not the business of the state: force can make people say what they do not "
            "believe, and cannot make them believe it.",
        ),
    ),
    "C018": (
        Text(
            1764,
            "Beccaria, On Crimes and Punishments",
            "A punishment is to be no harder than it must be; death is neither useful nor needed, and what deters "
            "is that punishment is certain, not that it is cruel.",
        ),
        Text(
            1789,
            "Declaration of the Rights of Man and of the Citizen",
            "People are born and remain free and equal in rights, and may do whatever does not harm others.",
        ),
        Text(
            1792,
            "Wollstonecraft, A Vindication of the Rights of Woman",
            "Women are brought up to please and are then called weak; taught to reason, they would be better "
            "mothers and citizens.",
        ),
    ),
    "C019": (
        Text(
            1833,
            "Slavery Abolition Act",
            "The enslaved in most British colonies are to be free, though many must first serve some years as "
            "apprentices, and those who held them are compensated.",
        ),
        Text(
            1859,
            "Mill, On Liberty, chapter 1",
            "The only reason for which anybody may be forced against their will is to keep them from harming "
            "others; their own good is not enough.",
        ),
        Text(
            1891,
            "Leo XIII, Rerum Novarum",
            "Employers are not to treat workers as tools, and owe them a wage on which they can live; private "
            "property is a right, and the classes need each other.",
        ),
    ),
    "C020": (
        Text(
            1919,
            "Constitution of the German Reich, article 109",
            "All are equal before the law; men and women have in principle the same rights and duties as citizens.",
        ),
        Text(
            1942,
            "Beveridge, Social Insurance and Allied Services",
            "Want is one of five giants, beside disease, ignorance, squalor and idleness; insurance of everybody "
            "can slay it.",
        ),
        Text(
            1948,
            "Universal Declaration of Human Rights, articles 1 and 2",
            "All are born free and equal in dignity and rights, whatever their race, sex, religion, opinion or "
            "property.",
        ),
    ),
    "C021": (
        Text(
            2006,
            "Convention on the Rights of Persons with Disabilities, article 3",
            "People with disabilities decide for themselves, take part in everything, and are accepted as part of "
            "human diversity.",
        ),
        Text(
            2009,
            "Charter of Fundamental Rights of the European Union, article 21",
            "Nobody is to be treated worse for their sex, race, belief, disability, age or sexual orientation.",
        ),
        Text(
            2015,
            "Paris Agreement, article 2",
            "The warming of the world is to be held well below two degrees, since that lowers its risks.",
        ),
    ),
}
"""Laws and books of western Europe, and treaties. They say what was written, not what most people held."""
