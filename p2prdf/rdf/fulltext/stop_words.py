"""Stop words: the function words of a language, which carry little meaning of a text.

The lists were compiled for this project and are under its licence: articles, pronouns, prepositions, conjunctions,
auxiliary verbs and a few adverbs, the closed classes of grammars.  They are short on purpose: a wrongly listed word
cannot be searched for, while a missing one only costs time.  Lists of libraries are longer and change between
versions, but all peers must ignore the same words.

Words are spelled as the tokeniser returns them.  A word that it splits (``isn't``) is not listed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = ["STOPPED", "stop_words_of"]

_LISTS: Final = {
    "english": """
        a about above after again against all am among an and any are as at be because been before being below
        between both but by can cannot could did do does doing done down during each either few for from further had
        has have having he her here hers herself him himself his how i if in into is it its itself just may me might
        mine more most must my myself neither no nor not of off on once only onto or other our ours ourselves out
        over own same shall she should so some such than that the their theirs them themselves then there these they
        this those though through to too under until up upon us very was we were what when where whether which while
        who whom whose why will with within without would yet you your yours yourself yourselves
        """,
    "german": """
        aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei
        beim bin bis bist da damit dann das dass dasselbe dazu dein deine deinem deinen deiner deines dem den denn der
        des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
        eines einige einigem einigen einiger einiges er es etwas euch euer eure eurem euren eurer für gegen hab habe
        haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in indem ins ist
        jede jedem jeden jeder jedes jene jenem jenen jener jenes kann kein keine keinem keinen keiner können könnte
        man manche manchem manchen mancher mein meine meinem meinen meiner mich mir mit muss musste nach nicht noch
        nun nur ob oder ohne sehr sein seine seinem seinen seiner seit selbst sich sie sind so solche soll sollte
        sondern sonst über um und uns unser unsere unserem unseren unter viel vom von vor während war waren was weil
        welche welchem welchen welcher wenn wer werde werden wie wieder will wir wird wo wollen wollte würde würden
        zu zum zur zwar zwischen
        """,
    "french": """
        à ai aie aient ainsi alors après as au aucun aucune aussi autre autres aux avaient avait avant avec avez avons
        ayant c car ce ceci cela celle celles celui ces cet cette ceux chez ci comme d dans de depuis des donc dont du
        elle elles en entre es est et étaient étais était étant êtes été être eu eux fut furent il ils j je l la là
        laquelle le lequel les lesquelles lesquels leur leurs lors lui m ma mais me même mêmes mes moi mon n ne ni nos
        notre nous on ont ou où par parce pas pendant peu plus pour pourquoi puis qu quand que quel quelle quelles
        quels qui quoi s sa sans se sera seraient serait seront ses si sien soi soient sois soit sommes son sont sous
        suis sur t ta te tes toi ton tous tout toute toutes très tu un une vers vos votre vous y
        """,
    "spanish": """
        a al algo algunas alguno algunos ante antes aquel aquella aquellas aquellos así aun aunque bajo cada como con
        contra cual cuales cuando de del desde donde dos durante e el él ella ellas ellos en entre era eran eres es
        esa esas ese eso esos esta está estaba estaban estado están estar estas este esto estos estoy fue fueron ha
        había habían han has hasta hay he la las le les lo los más me mi mí mis mucho muchos muy nada ni no nos
        nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros para pero poco por porque pues que qué
        quien quienes se sea sean según ser si sí sido siempre sin sobre sois somos son su sus también tan tanto te
        tenía tiene tienen todo todos tu tú tus tuya tuyo u un una unas uno unos vosotros vuestra vuestro y ya yo
        """,
    "italian": """
        a abbia abbiamo abbiano ad agli ai al alla alle allo altra altre altri altro anche avere aveva avevano avuto c
        che chi ci coi col come con contro cui d da dagli dai dal dalla dalle dallo degli dei del della delle dello di
        dopo dove e è ed era erano essere essi fra gli ha hanno ho i il in io l la le lei li lo loro lui ma me mi mia
        mie miei mio ne né negli nei nel nella nelle nello noi non nostra nostre nostri nostro o ogni per perché più
        poi prima quale quali quando quanto quella quelle quelli quello questa queste questi questo qui se sei senza
        si sia siamo siano siete sono sopra sotto sta stata state stati stato su sua sue sugli sui sul sulla sulle
        sullo suo suoi tra tu tua tue tuo tuoi tutta tutte tutti tutto un una uno vi voi vostra vostre vostri vostro
        """,
    "portuguese": """
        a à ainda ao aos aquela aquelas aquele aqueles aquilo as às até cada com como contra da das de dela delas dele
        deles depois do dos e é ela elas ele eles em entre era eram essa essas esse esses esta está estão estas estava
        estavam este estes eu foi foram há isso isto já lhe lhes mais mas me mesmo meu meus minha minhas muito na não
        nas nem no nos nós nossa nossas nosso nossos num numa o os ou outra outras outro outros para pela pelas pelo
        pelos per perante por porque qual quais quando quanto que quem são se seja sejam sem sendo ser será seu seus
        só sob sobre sua suas também tão te tem têm tendo ter teu teus tinha tinham todo todos tu tua tuas um uma umas
        uns você vocês vos
        """,
    "dutch": """
        aan al alle alles als alsof andere ben bij daar daarom dan dat de der deze die dit doch doen door dus een en er
        geen had hadden heb hebben heeft hem hen het hier hij hoe hun ik in is ja je jij jou jouw jullie kan kon konden
        kunnen maar me meer men met mij mijn moet moeten mocht na naar niet niets noch nog nu of om omdat ons onze ook
        op over reeds sinds te tegen toch toen tot tussen u uit uw van vanaf vele voor want waren was wat we wel welke
        werd werden wie wij wil worden wordt zal ze zelf zich zij zijn zo zonder zou zouden
        """,
    "swedish": """
        all alla allt än är att av bara blev bli blir blivit då de dem den denna deras dess dessa det detta dig din
        dina därför ditt du där eller en er era ert ett från för före ha hade han hans har hennes hon honom hur här
        i icke in ingen inget inom inte jag ju kan kunde kunna man med mellan men mig min mina mitt mot mycket ni nu
        någon något några när och om oss på samma sedan sig sin sina sitt ska skall skulle som så sådan sådana under
        upp ur ut utan vad var vara varför varit varje vars vart vem vi vid vilka vilken vilket våra vår vårt åt över
        """,
}  # fmt: skip

STOPPED: Final = frozenset(_LISTS)
"""The languages with a list, by the names of Snowball's algorithms."""


@lru_cache(maxsize=len(_LISTS))
def stop_words_of(language: str) -> frozenset[str]:
    """Return the stop words of one of the languages in STOPPED."""
    return frozenset(_LISTS[language].split())
